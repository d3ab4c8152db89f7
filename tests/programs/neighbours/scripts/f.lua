-- SPDX-License-Identifier: MIT
local pipe = io.popen("seq 3; exit 4")
print(pipe:read("a"))
print(pipe:close())
local file = io.open("f", "w")
file:write(("x"):rep(99))
file:close()
for line in io.lines("f") do print(#line) end
print(os.execute("exit 2"))
print(io.open("missing"))
local numbers = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
print(numbers(), numbers())
os.exit(7)
