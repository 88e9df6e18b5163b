-- Sapwood's maps for LuaJIT: names that were built by `sapwood names build --dns`, and the rules of
-- block lists that `sapwood lists` builds and serves.
--
--   local sapwood = dofile("/usr/share/doc/libsapwood-dev/examples/lua/sapwood.lua")
--   local blocked = sapwood.open("/var/lib/blocked.qp")
--   blocked:covers("www.example.org")       -- the name or a parent is in the map
--   local lists = sapwood.lists("/dev/shm/blocked", true)
--   lists:ask_wire(wire, len, 1)            -- the rule that answers, or nil
--
-- A function that cannot tell ends with an error (Lua's `error`): the name is none, or the file is
-- damaged. It never says "not in the map" then. Who refuses by a list must decide what an error
-- means: blocked.lua, lists.lua and kresd.lua refuse.
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
typedef struct sapwood_lists sapwood_lists;
typedef struct sapwood_lists_record { uint32_t rtype; uint32_t ttl; const void *data; size_t len; } sapwood_lists_record;
typedef struct sapwood_verdict { size_t size; int action; int list; int rank; int others; const char *rule; const char *list_name; const char *target; const sapwood_lists_record *records; size_t count; } sapwood_verdict;
int sapwood_lists_open(const char *path, unsigned int flags, sapwood_lists **out);
int sapwood_lists_open_live(const char *folder, unsigned int flags, uint64_t wait_ms, sapwood_lists **out);
void sapwood_lists_free(sapwood_lists *lists);
int sapwood_lists_ask_wire(sapwood_lists *lists, const void *wire, size_t wire_len, uint16_t rtype, sapwood_verdict *verdict);
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

local Lists = {}
Lists.__index = Lists

-- The rule that answers a question for a name in wire form, of this type, or nil if no rule applies.
-- What it points to is valid until the next question.
function Lists:ask_wire(wire, len, qtype)
    self.verdict[0].size = ffi.sizeof("sapwood_verdict")
    local result = must(lib.sapwood_lists_ask_wire(self.lists, wire, len, qtype, self.verdict))
    return result == 1 and self.verdict[0] or nil
end

-- The actions of rules, by their numbers: enum sapwood_lists_action.
M.actions = {
    [0] = "nxdomain", "nodata", "refused", "drop", "truncate", "pass", "null", "addresses", "name", "records",
}

-- Opens a map of rules: a file, or with `live` the directory of a live map, which is read as it
-- changes.
function M.lists(path, live)
    local out = ffi.new("sapwood_lists *[1]")
    if live then
        must(lib.sapwood_lists_open_live(path, 0, 0, out))
    else
        must(lib.sapwood_lists_open(path, 0, out))
    end
    return setmetatable({
        lists = ffi.gc(out[0], lib.sapwood_lists_free),
        verdict = ffi.new("sapwood_verdict[1]"),
    }, Lists)
end

return M
