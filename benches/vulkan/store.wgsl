// Stores a number through a pointer.
struct Arguments {
  number: u32,
}

var<immediate> arguments: Arguments;
@group(0) @binding(0) var<storage, read_write> place: array<u32>;

@compute @workgroup_size(1)
fn store() {
  place[0] = arguments.number;
}
