# The plugin interface of Longshore: target LongshorePlugin::LongshorePlugin, a header alone.

get_filename_component(_longshore_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET LongshorePlugin::LongshorePlugin)
  add_library(LongshorePlugin::LongshorePlugin INTERFACE IMPORTED)
  set_target_properties(LongshorePlugin::LongshorePlugin PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_longshore_prefix}/include")
endif()

unset(_longshore_prefix)
