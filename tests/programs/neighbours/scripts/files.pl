# SPDX-License-Identifier: MIT
use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use File::Find;

$| = 1;
$0 = "a title";
$SIG{USR1} = sub { print "caught\n" };
kill USR1 => $$;
my @names;
mkdir "d";
for (1 .. 5) {
	open my $file, ">", "d/$_" or die;
	print $file $_ x 9;
}
find(sub { push @names, $_ }, "d");
print join(",", sort @names), "\n";
for my $n (1 .. 4) {
	my $pid = fork // die;
	exit $n if !$pid;
	waitpid $pid, 0;
	print $? >> 8, "\n";
}
open my $pipe, "-|", "seq 100 | tail -1" or die;
print <$pipe>;
close $pipe;
print sha1_hex(join ",", 1 .. 1000), "\n", `ls -d /proc/self/task/* | wc -l`;
warn "to stderr\n";
exit 7;
