-- Sapwood's saved maps for LuaJIT: names that were built by `sapwood names build --dns`.
--
--   local sapwood = dofile("/usr/share/doc/libsapwood-dev/examples/lua/sapwood.lua")
--   local blocked = sapwood.open("/var/lib/blocked.qp")
--   blocked:covers("www.example.org")       -- the name or a parent is in the map
--
-- A function that cannot tell ends with an error (Lua's `error`): the name is none, or the file is
-- damaged. It never says "not in the map" then. Who refuses by a list must decide what an error
-- means: blocked.lua refuses.
--
-- A map is a file that all processes share: its pages are in memory once. ci/installed.sh checks that
-- the declarations below are those of the library's header.

local ffi = require("ffi")

ffi.cdef[[
typedef struct sapwood_file sapwood_file;
typedef struct sapwood_view sapwood_view;
typedef struct sapwood_bytes { const void *data; size_t len; } sapwood_bytes;
typedef union sapwood_value { uint64_t number; void *pointer; sapwood_bytes bytes; } sapwood_value;
typedef struct sapwood_entry { sapwood_bytes key; sapwood_value value; } sapwood_entry;
struct sapwood_view { uint64_t opaque[16]; };
const char *sapwood_strerror(int result);
int sapwood_last_error(char *buf, size_t len);
int sapwood_file_open(const char *path, int values, unsigned int flags, sapwood_file **out);
void sapwood_file_free(sapwood_file *file);
int sapwood_file_len(const sapwood_file *file, size_t *len);
int sapwood_file_view(const sapwood_file *file, sapwood_view *view);
int sapwood_view_longest_prefix(const sapwood_view *view, const void *key, size_t key_len, sapwood_entry *entry);
enum sapwood_key_rooms { SAPWOOD_KEY_DNS_MAX = 504, SAPWOOD_KEY_DNS_TEXT_MAX = 1004 };
int sapwood_key_dns_name(const char *name, void *key, size_t room, size_t *key_len);
int sapwood_key_dns_wire(const void *wire, size_t wire_len, void *key, size_t room, size_t *key_len);
int sapwood_key_dns_message(const void *message, size_t message_len, size_t at, void *key, size_t room, size_t *key_len, size_t *end);
]]

local lib = ffi.load(os.getenv("SAPWOOD_LIBRARY") or "libsapwood.so.0")
local ENOENT = -2
-- SAPWOOD_NUMBERS and SAPWOOD_UNVERIFIED.
local NUMBERS, UNVERIFIED = 0, 16
-- The longest key: any name has room.
local KEY_MAX = ffi.C.SAPWOOD_KEY_DNS_MAX

-- Ends with the library's message if a call failed.
local function must(result)
    if result < 0 then
        local text = ffi.new("char[500]")
        lib.sapwood_last_error(text, 500)
        error(ffi.string(text) ~= "" and ffi.string(text) or ffi.string(lib.sapwood_strerror(result)), 3)
    end
    return result
end

local Names = {}
Names.__index = Names

-- The number of the entry of a name or of its closest parent that is in the map, or nil. `wire` is a
-- pointer to a name as it is in DNS messages, or a string of it: not compressed, nothing behind it.
function Names:find_wire(wire, len)
    must(lib.sapwood_key_dns_wire(wire, len, self.key, KEY_MAX, self.len))
    return self:find_key()
end

-- The same for the name at byte `at` of a whole message, from 0 on. The name may be compressed. Also
-- returns the place of the first byte behind it.
function Names:find_in_message(message, len, at)
    must(lib.sapwood_key_dns_message(message, len, at, self.key, KEY_MAX, self.len, self.behind))
    return self:find_key(), tonumber(self.behind[0])
end

-- The same for a name as text.
function Names:find(name)
    must(lib.sapwood_key_dns_name(name, self.key, KEY_MAX, self.len))
    return self:find_key()
end

function Names:find_key()
    local result = lib.sapwood_view_longest_prefix(self.view, self.key, self.len[0], self.entry)
    if result == ENOENT then
        return nil
    end
    must(result)
    return tonumber(self.entry.value.number)
end

function Names:covers(name)
    return self:find(name) ~= nil
end

function Names:count()
    must(lib.sapwood_file_len(self.file, self.len))
    return tonumber(self.len[0])
end

local M = {}

-- Opens a map. With `unverified` the file is not read whole first: it opens at once, and what is
-- damaged gives wrong answers at worst.
function M.open(path, unverified)
    local out = ffi.new("sapwood_file *[1]")
    must(lib.sapwood_file_open(path, NUMBERS, unverified and UNVERIFIED or 0, out))
    local names = setmetatable({
        file = ffi.gc(out[0], lib.sapwood_file_free),
        view = ffi.new("sapwood_view"),
        key = ffi.new("uint8_t[?]", KEY_MAX),
        len = ffi.new("size_t[1]"),
        behind = ffi.new("size_t[1]"),
        entry = ffi.new("sapwood_entry"),
    }, Names)
    must(lib.sapwood_file_view(names.file, names.view))
    return names
end

return M
