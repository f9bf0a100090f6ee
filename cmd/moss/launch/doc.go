// Package launch finds the engine and, when nothing answers at the default socket and no unit of systemd is in charge,
// starts one. An engine that was named by a flag or by the environment is never started.
package launch
