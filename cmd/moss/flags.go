package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"moss/engine/logdriver"
)

// createFlags are the flags of run and create that become the container's settings. What a flag means is in build.go.
type createFlags struct {
	name, cidFile, pull, platform                         string
	replace                                               bool
	interactive, tty, quiet                               bool
	httpProxy, hostCA                                     bool
	attach                                                []string
	user, workDir, entrypoint, hostname, domainName       string
	env, envFiles, labels, labelFiles                     []string
	stopSignal, restart, logDriver                        string
	stopTimeout                                           int
	logOpts                                               []string
	volumes, volumesFrom, tmpfs, mounts                   []string
	shmSize                                               string
	readOnly, privileged, init                            bool
	networks                                              []string
	ip, ip6, macAddress                                   string
	publish, expose, addHosts, dns, dnsOptions, dnsSearch []string
	aliases, links                                        []string
	publishAll                                            bool
	pid, ipc, uts, userns, cgroupns, cgroupParent         string
	capAdd, capDrop, groupAdd, securityOpts               []string
	sysctls, ulimits, devices, annotations                []string
	gpus, deviceRules                                     []string
	memory, memoryReservation, memorySwap, cpus           string
	memorySwappiness, pidsLimit                           int64
	cpuShares, cpuPeriod, cpuQuota                        int64
	cpusetCPUs, cpusetMems                                string
	oomScoreAdj                                           int
	oomKillDisable                                        bool
	blkioWeight                                           uint16
	kernelMemory, ioBandwidth, isolation, runtime         string
	cpuPercent, cpuCount                                  int64
	ioOperations                                          uint64
	volumeDriver                                          string
	storageOpts, linkLocalIPs                             []string
	weights, readRates, writeRates                        []string // of block devices
	readOperations, writeOperations                       []string
	health                                                healthFlags
}

// healthFlags say how a container's health is tested.
type healthFlags struct {
	command                                       string
	interval, timeout, startPeriod, startInterval time.Duration
	retries                                       int
	none                                          bool
}

func (f *createFlags) registerFlags(set *pflag.FlagSet) {
	// -h is the host name here, as in other command lines.
	set.Bool("help", false, "help for this command")
	f.registerProcess(set)
	f.registerFiles(set)
	f.registerNetwork(set)
	f.registerIsolation(set)
	f.registerResources(set)
	f.registerBlockIO(set)
	f.health.registerFlags(set)
}

func (f *createFlags) registerProcess(set *pflag.FlagSet) {
	set.StringVar(&f.name, "name", "", "the container's name")
	set.BoolVar(&f.replace, "replace", false, "remove the container of that name first, running or not")
	set.StringVar(&f.cidFile, "cidfile", "", "write the container's id to a new `FILE`")
	set.StringVar(&f.pull, "pull", "missing", "pull the image before creating: missing, never or always")
	addPlatform(set, &f.platform)
	set.BoolVarP(&f.quiet, "quiet", "q", false, "do not show the progress of the pull")
	set.BoolVarP(&f.interactive, "interactive", "i", false, "keep stdin open and send this command's to it")
	set.BoolVarP(&f.tty, "tty", "t", false, "give the container a terminal")
	set.StringArrayVarP(&f.attach, "attach", "a", nil, "attach only to `STREAM`: stdin, stdout or stderr")
	set.StringVarP(&f.user, "user", "u", "", "run as `USER[:GROUP]`, names or numbers")
	set.StringVarP(&f.workDir, "workdir", "w", "", "folder to run in")
	set.StringVar(&f.entrypoint, "entrypoint", "", "replace the image's entrypoint; empty for none")
	set.StringVarP(&f.hostname, "hostname", "h", "", "the container's host name")
	set.StringVar(&f.domainName, "domainname", "", "the container's domain name")
	set.StringArrayVarP(&f.env, "env", "e", nil, "set a variable: `NAME=VALUE`, or NAME to pass yours")
	set.StringArrayVar(&f.envFiles, "env-file", nil, "set the variables in a `FILE`, one a line")
	set.BoolVar(&f.httpProxy, "http-proxy", false, "pass your proxies: http_proxy, https_proxy, ftp_proxy, no_proxy, all_proxy, in both cases")
	set.BoolVar(&f.hostCA, "host-ca", false, "mount this machine's file of CA certificates, and set SSL_CERT_FILE and the like to it")
	set.StringArrayVarP(&f.labels, "label", "l", nil, "set a label: `KEY=VALUE`")
	set.StringArrayVar(&f.labelFiles, "label-file", nil, "set the labels in a `FILE`, one a line")
	set.StringVar(&f.stopSignal, "stop-signal", "", "signal that ends the container")
	set.IntVar(&f.stopTimeout, "stop-timeout", 0, "seconds that a stop waits before killing")
	set.StringVar(&f.restart, "restart", "no", "restart policy: no, always, unless-stopped or on-failure[:TRIES]")
	set.StringVar(&f.logDriver, "log-driver", "", "log driver: "+strings.Join(logdriver.Names(), ", ")+" (default: the engine's)")
	set.StringArrayVar(&f.logOpts, "log-opt", nil, "set an option of the log driver: `KEY=VALUE`")
}

func (f *createFlags) registerFiles(set *pflag.FlagSet) {
	set.StringArrayVarP(&f.volumes, "volume", "v", nil, "mount a folder or a volume: `[SOURCE:]PATH[:OPTIONS]`")
	set.StringArrayVar(&f.volumesFrom, "volumes-from", nil, "mount what another container has: `CONTAINER[:ro]`")
	set.StringVar(&f.volumeDriver, "volume-driver", "", "driver of the volumes that are made for the container")
	set.StringArrayVar(&f.storageOpts, "storage-opt", nil, "option of the storage: `KEY=VALUE`")
	set.StringArrayVar(&f.tmpfs, "tmpfs", nil, "mount a file system in memory: `PATH[:OPTIONS]`")
	set.StringArrayVar(&f.mounts, "mount", nil, "mount as `KEY=VALUE,…` say: type=bind, volume, tmpfs or image, src=, dst=, ro, …")
	set.StringVar(&f.shmSize, "shm-size", "", "size of /dev/shm, such as 64m")
	set.BoolVar(&f.readOnly, "read-only", false, "mount the root file system read-only")
	set.StringArrayVar(&f.devices, "device", nil,
		"add a device of the host: `PATH[:PATH IN CONTAINER][:rwm]`, or by CDI: VENDOR/CLASS=NAME")
	set.StringArrayVar(&f.deviceRules, "device-cgroup-rule", nil, "allow devices: `RULE` such as 'c 1:3 rwm'")
	set.StringArrayVar(&f.gpus, "gpus", nil,
		"add `GPUS`: all, a number of them, or device=…, count=…, driver=…, capabilities=…, options=…")
}

func (f *createFlags) registerNetwork(set *pflag.FlagSet) {
	set.StringArrayVar(&f.networks, "network", nil, "join `NETWORK`: NAME, host, none, container:NAME, or name=NAME,alias=…,ip=…; again for more")
	addSynonym(set, "net", "network")
	set.StringArrayVarP(&f.publish, "publish", "p", nil, "publish a port or a range: `[[IP:]HOST PORT:]PORT[/udp]`")
	set.BoolVarP(&f.publishAll, "publish-all", "P", false, "publish all exposed ports, each at a free port of the host")
	set.StringArrayVar(&f.expose, "expose", nil, "expose a `PORT[/udp]` or a range of them")
	set.StringArrayVar(&f.addHosts, "add-host", nil, "add a line to /etc/hosts: `NAME:IP`; the IP host-gateway is that of the host")
	set.StringArrayVar(&f.dns, "dns", nil, "name server's `IP`")
	set.StringArrayVar(&f.dnsOptions, "dns-option", nil, "option of the resolver")
	addSynonym(set, "dns-opt", "dns-option")
	set.StringArrayVar(&f.dnsSearch, "dns-search", nil, "`DOMAIN` to search")
	set.StringVar(&f.ip, "ip", "", "IPv4 address in the network")
	set.StringVar(&f.ip6, "ip6", "", "IPv6 address in the network")
	set.StringArrayVar(&f.linkLocalIPs, "link-local-ip", nil, "link-local `IP` in the network")
	set.StringVar(&f.macAddress, "mac-address", "", "hardware `ADDRESS` in the network")
	set.StringArrayVar(&f.aliases, "network-alias", nil, "further `NAME` in the network")
	addSynonym(set, "net-alias", "network-alias")
	set.StringArrayVar(&f.links, "link", nil, "link to another container: `CONTAINER[:ALIAS]`")
}

// addSynonym gives a flag another, hidden name. Both write the same list: each would start its own if it had a value of its own.
func addSynonym(set *pflag.FlagSet, name, of string) {
	set.Var(set.Lookup(of).Value, name, "the same as --"+of)
	_ = set.MarkHidden(name) // the flag exists, so marking it cannot fail
}

// addPlatform adds the flag of what an image has to be for.
func addPlatform(set *pflag.FlagSet, platform *string) {
	set.StringVar(platform, "platform", "", "want the image for a `PLATFORM`, such as linux/arm64")
}

func (f *createFlags) registerIsolation(set *pflag.FlagSet) {
	set.BoolVar(&f.privileged, "privileged", false, "give the container all of your own privileges")
	set.BoolVar(&f.init, "init", false, "have a first process that passes signals on and releases what has ended")
	set.StringArrayVar(&f.capAdd, "cap-add", nil, "add a `CAPABILITY`")
	set.StringArrayVar(&f.capDrop, "cap-drop", nil, "drop a `CAPABILITY`")
	set.StringArrayVar(&f.groupAdd, "group-add", nil, "add a `GROUP` to the user's")
	set.StringArrayVar(&f.securityOpts, "security-opt", nil, "security `OPTION`: no-new-privileges, seccomp=FILE, …")
	set.StringArrayVar(&f.annotations, "annotation", nil, "tell the runtime: `KEY=VALUE`")
	set.StringArrayVar(&f.sysctls, "sysctl", nil, "set a kernel parameter: `KEY=VALUE`")
	set.StringArrayVar(&f.ulimits, "ulimit", nil, "set a limit: `NAME=SOFT[:HARD]`")
	set.StringVar(&f.pid, "pid", "", "process namespace: host or container:NAME")
	set.StringVar(&f.runtime, "runtime", "", "runtime of the container: crun or runc")
	set.StringVar(&f.isolation, "isolation", "", "isolation technology; default is the only one on Linux")
	set.StringVar(&f.cgroupns, "cgroupns", "", "control groups that it sees: private or host")
	set.StringVar(&f.ipc, "ipc", "", "IPC namespace: private, shareable, host, none or container:NAME")
	set.StringVar(&f.uts, "uts", "", "host name's namespace: host")
	set.StringVar(&f.userns, "userns", "", "user namespace: host, or keep-id[:uid=UID,gid=GID] to be yourself in the container, or that user")
	set.StringVar(&f.cgroupParent, "cgroup-parent", "", "control group to run below")
}

func (f *createFlags) registerResources(set *pflag.FlagSet) {
	set.StringVarP(&f.memory, "memory", "m", "", "memory limit, such as 512m")
	set.StringVar(&f.memoryReservation, "memory-reservation", "", "soft limit of memory")
	set.StringVar(&f.memorySwap, "memory-swap", "", "limit of memory and swap together; -1 for no limit of swap")
	set.StringVar(&f.kernelMemory, "kernel-memory", "", "limit of the kernel's memory for it")
	set.Int64Var(&f.memorySwappiness, "memory-swappiness", -1, "how readily memory is swapped, 0 to 100")
	set.BoolVar(&f.oomKillDisable, "oom-kill-disable", false, "do not kill the container's processes when memory runs out")
	set.IntVar(&f.oomScoreAdj, "oom-score-adj", 0, "preference of the OOM killer, -1000 (last) to 1000 (first)")
	set.StringVar(&f.cpus, "cpus", "", "number of CPUs, such as 1.5")
	set.Int64VarP(&f.cpuShares, "cpu-shares", "c", 0, "CPU weight")
	set.Int64Var(&f.cpuPeriod, "cpu-period", 0, "CPU period in microseconds")
	set.Int64Var(&f.cpuQuota, "cpu-quota", 0, "CPU time in microseconds for each period")
	set.StringVar(&f.cpusetCPUs, "cpuset-cpus", "", "CPUs to run on, such as 0-2,4")
	set.StringVar(&f.cpusetMems, "cpuset-mems", "", "memory nodes to use")
	set.Int64Var(&f.pidsLimit, "pids-limit", 0, "limit of processes; -1 for none")
}

func (f *createFlags) registerBlockIO(set *pflag.FlagSet) {
	set.Uint16Var(&f.blkioWeight, "blkio-weight", 0, "weight of block I/O, 10 to 1000")
	set.StringArrayVar(&f.weights, "blkio-weight-device", nil, "weight of one device: `PATH:WEIGHT`")
	set.StringArrayVar(&f.readRates, "device-read-bps", nil, "limit of reading in bytes per second: `PATH:RATE`, such as /dev/sda:1mb")
	set.StringArrayVar(&f.writeRates, "device-write-bps", nil, "limit of writing in bytes per second: `PATH:RATE`")
	set.StringArrayVar(&f.readOperations, "device-read-iops", nil, "limit of reads per second: `PATH:RATE`")
	set.StringArrayVar(&f.writeOperations, "device-write-iops", nil, "limit of writes per second: `PATH:RATE`")
	set.StringVar(&f.ioBandwidth, "io-maxbandwidth", "", "limit of I/O in bytes per second (Windows only)")
	set.Uint64Var(&f.ioOperations, "io-maxiops", 0, "limit of I/O operations per second (Windows only)")
	set.Int64Var(&f.cpuCount, "cpu-count", 0, "number of CPUs (Windows only)")
	set.Int64Var(&f.cpuPercent, "cpu-percent", 0, "share of the CPUs in percent (Windows only)")
}

func (f *healthFlags) registerFlags(set *pflag.FlagSet) {
	set.StringVar(&f.command, "health-cmd", "", "command for the shell that tests the container's health")
	set.DurationVar(&f.interval, "health-interval", 0, "time between two tests, such as 30s")
	set.DurationVar(&f.timeout, "health-timeout", 0, "time that a test may take")
	set.DurationVar(&f.startPeriod, "health-start-period", 0, "time the container gets before failures count")
	set.DurationVar(&f.startInterval, "health-start-interval", 0, "time between two checks in that time")
	set.IntVar(&f.retries, "health-retries", 0, "failures in a row that make the container unhealthy")
	set.BoolVar(&f.none, "no-healthcheck", false, "disable the health check of the image")
}
