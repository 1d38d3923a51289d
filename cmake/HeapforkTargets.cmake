# Helpers that keep each folder's CMakeLists.txt at about ten lines.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Assertions stay on in release: they are cheap, and a tool that holds other
# people's processes shall rather stop than go on with a broken belief.
foreach(config RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${config}
    "${CMAKE_C_FLAGS_${config}}")
endforeach()

# hf_warnings: what our own C is compiled with. Victims and examples are not.
add_library(hf_warnings INTERFACE)
target_compile_options(hf_warnings INTERFACE
  -Wall -Wextra -Wshadow
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>
  -Wpointer-arith -Wundef -Wvla -Wwrite-strings -fno-common
  $<$<BOOL:${HF_WERROR}>:-Werror>)
target_compile_definitions(hf_warnings INTERFACE _GNU_SOURCE)
target_include_directories(hf_warnings INTERFACE "${PROJECT_SOURCE_DIR}")

# hf_hardening: for what runs with rights over other people's processes.
add_library(hf_hardening INTERFACE)
target_compile_options(hf_hardening INTERFACE
  -fstack-protector-strong -fcf-protection
  $<$<AND:$<NOT:$<CONFIG:Debug>>,$<NOT:$<BOOL:${HF_SANITIZE}>>>:-D_FORTIFY_SOURCE=2>)
target_link_options(hf_hardening INTERFACE -Wl,-z,relro -Wl,-z,now)

add_library(hf_sanitizers INTERFACE)
if(HF_SANITIZE)
  target_compile_options(hf_sanitizers INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(hf_sanitizers INTERFACE -fsanitize=address,undefined)
endif()
if(HF_FUZZ)
  target_compile_options(hf_sanitizers INTERFACE -fsanitize=fuzzer-no-link)
endif()

# hf_add_library(NAME SOURCES … PUBLIC … PRIVATE …)
# A static library of one layer, compiled from the project's root.
function(hf_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name}
    PUBLIC ${ARG_PUBLIC} hf_sanitizers
    PRIVATE ${ARG_PRIVATE} hf_warnings hf_hardening)
endfunction()

# hf_add_unit_test(NAME [SOURCES …] LINK …)
# One cmocka executable from test_NAME.c, label `unit`. The tests' own
# helpers (tests/support) are always linked.
function(hf_add_unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES test_${name}.c)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE
    ${ARG_LINK} hf_test_support hf_warnings PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES
    LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT})
endfunction()

# hf_add_victim(NAME [SOURCES …] [LINK …] [OPTIONS …])
# A program that tests look at from outside: never sanitized, optimised as a
# user's would be, with debug information.
function(hf_add_victim name)
  cmake_parse_arguments(ARG "STATIC" "" "SOURCES;LINK;OPTIONS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${name}.c)
  endif()
  add_executable(victim_${name} ${ARG_SOURCES})
  target_compile_definitions(victim_${name} PRIVATE _GNU_SOURCE)
  target_include_directories(victim_${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_options(victim_${name} PRIVATE -O1 -g -Wall ${ARG_OPTIONS})
  target_link_libraries(victim_${name} PRIVATE Threads::Threads ${ARG_LINK})
  if(ARG_STATIC)
    target_link_options(victim_${name} PRIVATE -static)
  endif()
endfunction()

# hf_check_headers(FOLDER…)
# Every header must compile alone, and twice.
function(hf_check_headers)
  set(stubs)
  foreach(folder IN LISTS ARGN)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
      "${PROJECT_SOURCE_DIR}/${folder}/*.h")
    foreach(header IN LISTS headers)
      string(MAKE_C_IDENTIFIER "${header}" id)
      set(stub "${PROJECT_BINARY_DIR}/header-check/${id}.c")
      file(CONFIGURE OUTPUT "${stub}" CONTENT
        "#include \"${header}\"\n#include \"${header}\"\nint hf_header_check_${id}(void);\n")
      list(APPEND stubs "${stub}")
    endforeach()
  endforeach()
  add_library(hf_header_check OBJECT ${stubs})
  target_link_libraries(hf_header_check PRIVATE hf_warnings
    PkgConfig::LIBELF PkgConfig::LIBDW PkgConfig::SQLITE PkgConfig::SMARTCOLS)
endfunction()

# hf_add_fuzz_target(NAME LINK … [MUTATIONS N])
# tests/fuzz/fuzz_NAME.c with LLVMFuzzerTestOneInput. With HF_FUZZ it is a
# libFuzzer program; else a driver runs it over corpus/NAME and N mutations of
# each file. Both are a test.
function(hf_add_fuzz_target name)
  cmake_parse_arguments(ARG "" "MUTATIONS" "LINK" ${ARGN})
  if(NOT ARG_MUTATIONS)
    set(ARG_MUTATIONS 2000)
  endif()
  add_executable(fuzz_${name} fuzz_${name}.c)
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_LINK} hf_util hf_warnings)
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
  if(HF_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} -runs=0 "${corpus}")
  else()
    target_sources(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/driver.c")
    add_test(NAME fuzz_${name}
      COMMAND fuzz_${name} -mutations=${ARG_MUTATIONS} "${corpus}")
  endif()
  set_tests_properties(fuzz_${name} PROPERTIES LABELS "unit;fuzz" TIMEOUT 120)
endfunction()
