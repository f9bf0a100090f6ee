// Package launch finds the engine and, when nothing answers at the default socket and no unit of systemd is in charge,
// starts one, also if a flag or the environment names that socket; it stops it and removes its data as well. An engine at
// another host is never started.
package launch
