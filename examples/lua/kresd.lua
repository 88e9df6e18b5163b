-- Knot Resolver answers by the rules of block lists, which change while it runs.
--
--   sapwood lists serve ads.txt malware.rpz --live /dev/shm/blocked --watch &
--   LISTS=/dev/shm/blocked LISTEN=127.0.0.1:5300 kresd -n -c kresd.lua
--
-- What cannot be looked up is refused, and the log has the reason: an error of the library is never
-- "not in the list". Each process of kresd opens the map for itself.

local ffi = require("ffi")
local sapwood = dofile((os.getenv("SAPWOOD_LUA") or ".") .. "/sapwood.lua")
local lists = sapwood.lists(os.getenv("LISTS") or "/dev/shm/blocked", true)

local address, port = (os.getenv("LISTEN") or "127.0.0.1:5300"):match("^(.*):(%d+)$")
net.listen(address, tonumber(port), { kind = "dns" })
modules.load("policy")

-- The answer with another name. Who asked follows it.
local function other_name(target)
    local wire = kres.str2dname(target)
    return function(_, request)
        local answer = request:ensure_answer()
        if answer == nil then
            return nil
        end
        ffi.C.kr_pkt_make_auth_header(answer)
        answer:rcode(kres.rcode.NOERROR)
        answer:begin(kres.section.ANSWER)
        answer:put(request:current().sname, 300, answer:qclass(), kres.type.CNAME, wire)
        return kres.DONE
    end
end

-- The records of the rule that have the question's type; without one, there are none.
local function records(rule, qtype)
    local data, ttl = {}, 300
    for i = 0, tonumber(rule.count) - 1 do
        local record = rule.records[i]
        data[#data + 1], ttl = ffi.string(record.data, record.len), record.ttl
    end
    return policy.ANSWER(#data > 0 and { [qtype] = { rdata = data, ttl = ttl } } or {}, true)
end

local answers = {
    nxdomain = function() return policy.DENY end,
    nodata = function() return policy.ANSWER({}, true) end,
    refused = function() return policy.REFUSE end,
    drop = function() return policy.NO_ANSWER end,
    truncate = function(_, _, request) return not request.qsource.flags.tcp and policy.TC or nil end,
    pass = function() return nil end,
    null = records,
    addresses = records,
    records = records,
    name = function(rule) return other_name(ffi.string(rule.target)) end,
}

local function answer(request, query)
    local wire = query:name()
    local rule = lists:ask_wire(wire, #wire, query.stype)
    return rule ~= nil and answers[sapwood.actions[rule.action]](rule, query.stype, request) or nil
end

policy.add(function(request, query)
    local ok, action = pcall(answer, request, query)
    if ok then
        return action
    end
    log_error(ffi.C.LOG_GRP_POLICY, "a name could not be looked up, and is refused: " .. tostring(action))
    return policy.REFUSE
end)
-- In place of the servers of the Internet, so that the example needs none.
policy.add(policy.all(policy.ANSWER({ [kres.type.A] = { rdata = kres.str2ip("192.0.2.1"), ttl = 300 } }, true)))
