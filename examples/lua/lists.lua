-- dnsdist answers by the rules of block lists, which change while it runs.
--
--   sapwood lists serve ads.txt malware.rpz --live /dev/shm/blocked --watch &
--   LISTS=/dev/shm/blocked LISTEN=127.0.0.1:5300 dnsdist --supervised -C lists.lua
--
-- What cannot be looked up is refused, and the log has the reason: an error of the library is never
-- "not in the list".

local ffi = require("ffi")
local here = os.getenv("SAPWOOD_LUA") or "."
local sapwood = dofile(here .. "/sapwood.lua")
local lists = sapwood.lists(os.getenv("LISTS") or "/dev/shm/blocked", true)

setSecurityPollSuffix("")
setLocal(os.getenv("LISTEN") or "127.0.0.1:5300", { reusePort = true })
newServer({ address = os.getenv("UPSTREAM") or "127.0.0.1:53" })

local C = ffi.C
local name = ffi.new("const char *[1]")
local len = ffi.new("size_t[1]")

-- An answer of this server, without records.
local function status(question, rcode)
    C.dnsdist_ffi_dnsquestion_set_rcode(question, rcode)
    return DNSAction.HeaderModify
end

-- The records of the rule that have the question's type.
local function records(question, rule)
    local count = tonumber(rule.count)
    if count == 0 then
        return status(question, DNSRCode.NOERROR)
    end
    local values = ffi.new("dnsdist_ffi_raw_value_t[?]", count)
    for i = 0, count - 1 do
        values[i].value = ffi.cast("const char *", rule.records[i].data)
        values[i].size = rule.records[i].len
    end
    C.dnsdist_ffi_dnsquestion_spoof_raw(question, values, count)
    return DNSAction.HeaderModify
end

local answers = {
    nxdomain = function(question) return status(question, DNSRCode.NXDOMAIN) end,
    nodata = function(question) return status(question, DNSRCode.NOERROR) end,
    refused = function(question) return status(question, DNSRCode.REFUSED) end,
    drop = function() return DNSAction.Drop end,
    truncate = function(question)
        return C.dnsdist_ffi_dnsquestion_get_tcp(question) and DNSAction.None or DNSAction.Truncate
    end,
    pass = function() return DNSAction.None end,
    null = records,
    addresses = records,
    records = records,
    name = function(question, rule)
        C.dnsdist_ffi_dnsquestion_set_result(question, rule.target, #ffi.string(rule.target))
        return DNSAction.Spoof
    end,
}

local function answer(question)
    C.dnsdist_ffi_dnsquestion_get_qname_raw(question, name, len)
    local rule = lists:ask_wire(name[0], len[0], C.dnsdist_ffi_dnsquestion_get_qtype(question))
    if rule == nil then
        return DNSAction.None
    end
    return answers[sapwood.actions[rule.action]](question, rule)
end

addAction(AllRule(), LuaFFIAction(function(question)
    local ok, action = pcall(answer, question)
    if ok then
        return action
    end
    errlog("a name could not be looked up, and is refused: " .. tostring(action))
    return status(question, DNSRCode.REFUSED)
end))
-- In place of a resolver, so that the example needs no other server.
addAction(AllRule(), SpoofAction("192.0.2.1"))
