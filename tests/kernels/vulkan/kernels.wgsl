// The kernels of `kernels.c` in the form for an item. Numbers have only 32 bits, and pointer
// arguments come before all others.

// Items in a group, for kernels with a fixed size.
const GROUP = 256u;

// Items in a group, for kernels with any size.
override items: u32 = 64;

// ---- Without barriers: one item for each element ------------------------------------------------

struct Scaled {
  factor: f32,
  n: u32,
}

struct Count {
  n: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> scaled: Scaled;
@group(0) @binding(3) var<uniform> count: Count;

@compute @workgroup_size(items)
fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if i < scaled.n {
    y[i] = scaled.factor * x[i] + y[i];
  }
}

@group(1) @binding(0) var<storage, read> b: array<f32>;
@group(1) @binding(1) var<storage, read> c: array<f32>;
@group(1) @binding(2) var<storage, read_write> a: array<f32>;
@group(1) @binding(3) var<uniform> triad_scaled: Scaled;

@compute @workgroup_size(items)
fn triad(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if i < triad_scaled.n {
    a[i] = b[i] + triad_scaled.factor * c[i];
  }
}

// Sum of an element and its neighbours; elements beyond the ends count as zero.
@compute @workgroup_size(items)
fn stencil(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if i >= count.n {
    return;
  }
  var sum = x[i];
  if i > 0 {
    sum += x[i - 1];
  }
  if i + 1 < count.n {
    sum += x[i + 1];
  }
  y[i] = sum;
}

// ---- Matrix multiply ----------------------------------------------------------------------------

// Computes c = a b, of m x k and k x n elements, row by row. A group computes a tile of c.
const TILE = 16u;

struct MatmulSizes {
  m: u32,
  n: u32,
  k: u32,
}

@group(2) @binding(0) var<storage, read> matrix_a: array<f32>;
@group(2) @binding(1) var<storage, read> matrix_b: array<f32>;
@group(2) @binding(2) var<storage, read_write> matrix_c: array<f32>;
@group(2) @binding(3) var<uniform> sizes: MatmulSizes;

var<workgroup> left: array<array<f32, TILE>, TILE>;
var<workgroup> right: array<array<f32, TILE>, TILE>;

// Returns an element of the matrix; 0 beyond its edges.
fn element_a(row: u32, column: u32) -> f32 {
  if row < sizes.m && column < sizes.k {
    return matrix_a[row * sizes.k + column];
  }
  return 0.0;
}

fn element_b(row: u32, column: u32) -> f32 {
  if row < sizes.k && column < sizes.n {
    return matrix_b[row * sizes.n + column];
  }
  return 0.0;
}

@compute @workgroup_size(TILE, TILE)
fn matmul(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  var sum = 0.0;
  for (var begin = 0u; begin < sizes.k; begin += TILE) {
    left[local.y][local.x] = element_a(id.y, begin + local.x);
    right[local.y][local.x] = element_b(begin + local.y, id.x);
    workgroupBarrier();
    for (var j = 0u; j < TILE; j++) {
      sum += left[local.y][j] * right[j][local.x];
    }
    workgroupBarrier();
  }
  if id.y < sizes.m && id.x < sizes.n {
    matrix_c[id.y * sizes.n + id.x] = sum;
  }
}

// ---- Any number of groups of GROUP items, each with a part of the elements ----------------------

// Returns the beginning of a group's elements: a multiple of GROUP, or n. The elements end where
// the next group's begin.
fn part(group: u32, groups: u32, n: u32) -> u32 {
  let blocks = (n + GROUP - 1) / GROUP;
  let each = (blocks + groups - 1) / groups;
  return min(group * each * GROUP, n);
}

var<workgroup> float_tile: array<f32, GROUP>;

// Writes the sum of each group's elements.
@compute @workgroup_size(GROUP)
fn reduce(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) id: u32,
) {
  let end = part(group.x + 1, groups.x, count.n);
  var sum = 0.0;
  for (var i = part(group.x, groups.x, count.n) + id; i < end; i += GROUP) {
    sum += x[i];
  }
  float_tile[id] = sum;
  workgroupBarrier();
  for (var near = GROUP / 2; near > 0; near /= 2) {
    if id < near {
      float_tile[id] += float_tile[id + near];
    }
    workgroupBarrier();
  }
  if id == 0 {
    y[group.x] = float_tile[0];
  }
}

@group(3) @binding(0) var<storage, read_write> numbers: array<u32>;
@group(3) @binding(1) var<storage, read_write> bins: array<atomic<u32>>;
@group(3) @binding(2) var<storage, read_write> results: array<u32>;
@group(3) @binding(3) var<storage, read_write> before: array<u32>;
@group(3) @binding(4) var<uniform> numbers_count: Count;
@group(3) @binding(5) var<uniform> scan: Scan;

struct Scan {
  n: u32,
  before_is_known: u32,
}

var<workgroup> own: array<atomic<u32>, 256>;

// Adds the number of occurrences of each byte to the bins. Reads four bytes at a time.
@compute @workgroup_size(GROUP)
fn histogram(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) id: u32,
) {
  let end = part(group.x + 1, groups.x, numbers_count.n);
  atomicStore(&own[id], 0u);
  workgroupBarrier();
  for (var i = part(group.x, groups.x, numbers_count.n) + id; i < end; i += GROUP) {
    let byte = (numbers[i / 4] >> (i % 4 * 8)) & 0xff;
    atomicAdd(&own[byte], 1u);
  }
  workgroupBarrier();
  atomicAdd(&bins[id], atomicLoad(&own[id]));
}

// ---- Prefix sum ---------------------------------------------------------------------------------

var<workgroup> number_tile: array<array<u32, GROUP>, 2>;

// Writes the sum of each group's elements: the first of a prefix sum's three launches.
@compute @workgroup_size(GROUP)
fn prefix_sum_parts(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) id: u32,
) {
  let end = part(group.x + 1, groups.x, numbers_count.n);
  var sum = 0u;
  for (var i = part(group.x, groups.x, numbers_count.n) + id; i < end; i += GROUP) {
    sum += numbers[i];
  }
  number_tile[0][id] = sum;
  workgroupBarrier();
  for (var near = GROUP / 2; near > 0; near /= 2) {
    if id < near {
      number_tile[0][id] += number_tile[0][id + near];
    }
    workgroupBarrier();
  }
  if id == 0 {
    results[group.x] = number_tile[0][0];
  }
}

// Each result becomes the sum of the group's elements up to the same index, plus the sum of all
// elements before the group if that is known.
@compute @workgroup_size(GROUP)
fn prefix_sum(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) id: u32,
) {
  let end = part(group.x + 1, groups.x, scan.n);
  var sum = 0u;
  if scan.before_is_known != 0 && group.x > 0 {
    sum = before[group.x - 1];
  }
  for (var begin = part(group.x, groups.x, scan.n); begin < end; begin += GROUP) {
    var own_number = 0u;
    if begin + id < end {
      own_number = numbers[begin + id];
    }
    var source = 0u;
    number_tile[0][id] = own_number;
    workgroupBarrier();
    for (var near = 1u; near < GROUP; near *= 2) {
      var with_near = number_tile[source][id];
      if id >= near {
        with_near += number_tile[source][id - near];
      }
      number_tile[1 - source][id] = with_near;
      source = 1 - source;
      workgroupBarrier();
    }
    if begin + id < end {
      results[begin + id] = sum + number_tile[source][id];
    }
    sum += number_tile[source][GROUP - 1];
    workgroupBarrier();
  }
}

// ---- N-body -------------------------------------------------------------------------------------

// Keeps the pull of near bodies, and of a body on itself, finite.
const SOFTENING = 1e-3;

@group(3) @binding(6) var<storage, read> bodies: array<vec4<f32>>;
@group(3) @binding(7) var<storage, read_write> pulls: array<vec4<f32>>;
@group(3) @binding(8) var<uniform> bodies_count: Count;

var<workgroup> body_tile: array<vec4<f32>, GROUP>;

// Computes the acceleration of each body by all bodies, which have x, y, z and mass.
@compute @workgroup_size(GROUP)
fn nbody(@builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) id: u32) {
  let i = global.x;
  let own_place = bodies[select(0, i, i < bodies_count.n)].xyz;
  var sum = vec3(0.0);
  for (var begin = 0u; begin < bodies_count.n; begin += GROUP) {
    let near = min(bodies_count.n - begin, GROUP);
    if id < near {
      body_tile[id] = bodies[begin + id];
    }
    workgroupBarrier();
    for (var j = 0u; j < near; j++) {
      let way = body_tile[j].xyz - own_place;
      let inverse = 1 / sqrt(dot(way, way) + SOFTENING);
      sum += body_tile[j].w * inverse * inverse * inverse * way;
    }
    workgroupBarrier();
  }
  if i < bodies_count.n {
    pulls[i] = vec4(sum, 0.0);
  }
}
