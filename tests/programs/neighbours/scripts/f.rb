# SPDX-License-Identifier: MIT
puts (1..4).map { |n| Thread.new { n * n } }.map(&:value).inspect
puts `echo sub`, IO.popen(["seq", "3"], &:read)
4.times { |n| Process.wait fork { exit! n }; puts $?.exitstatus }
reader, writer = IO.pipe
spawn("echo spawned", out: writer)
writer.close
puts reader.read
Process.wait
caught = Queue.new
trap("USR1") { caught << "caught" }
Process.kill "USR1", $$
puts caught.pop
puts ENV.keys.reject { |k| k =~ /^(LD_|TSSHIM)/ }.sort.inspect
puts Dir["/proc/self/fd/*"].size
File.write "f", "x" * 9
puts File.stat("f").size
exit 6
