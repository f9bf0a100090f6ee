// The finder of the programs that the sources call: its parser of shell scripts is of no use to moss itself.
module moss/hack/programs

go 1.26.0

require mvdan.cc/sh/v3 v3.14.1
