-- dnsdist refuses blocked names and all names below them. Each worker is a process of its own; all
-- of them map one file.
--
--   sapwood names build --dns blocked.txt -o blocked.qp
--   BLOCKED=blocked.qp LISTEN=127.0.0.1:5300 dnsdist --supervised -C blocked.lua
--
-- What cannot be looked up is refused, and the log has the reason: an error of the library is never
-- "not in the list".
--
-- With more than one worker, each listens on the same port, and the kernel divides the queries.

local ffi = require("ffi")
local here = os.getenv("SAPWOOD_LUA") or "."
local sapwood = dofile(here .. "/sapwood.lua")
local blocked = sapwood.open(os.getenv("BLOCKED") or "blocked.qp", true)

setSecurityPollSuffix("")
setLocal(os.getenv("LISTEN") or "127.0.0.1:5300", { reusePort = true })
newServer({ address = os.getenv("UPSTREAM") or "127.0.0.1:53" })

-- The question's name as it is in the message: no string is made of it.
local name = ffi.new("const char *[1]")
local len = ffi.new("size_t[1]")
local function look(question)
    ffi.C.dnsdist_ffi_dnsquestion_get_qname_raw(question, name, len)
    return blocked:find_wire(name[0], len[0])
end
addAction(LuaFFIRule(function(question)
    -- dnsdist takes an error in a rule for "the rule does not match", so none may get out of here.
    local ok, found = pcall(look, question)
    if not ok then
        errlog("a name could not be looked up, and is refused: " .. tostring(found))
    end
    return not ok or found ~= nil
end), RCodeAction(DNSRCode.REFUSED))
-- In place of a resolver, so that the example needs no other server.
addAction(AllRule(), SpoofAction("192.0.2.1"))
