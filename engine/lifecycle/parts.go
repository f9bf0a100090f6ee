package lifecycle

import "path/filepath"

// makeParts makes what stands beside the verbs. None of these parts knows the manager.
func (m *Manager) makeParts() {
	opt := &m.opt
	m.userns = &userNamespaces{mapped: opt.Mapped, ids: opt.KeepID, user: opt.User, name: opt.UserName, home: opt.UserHome}
	m.layers = &layers{store: opt.Layers, mounts: opt.LayerMounts, userns: m.userns, log: opt.Log}
	m.volumes = &volumes{
		store: opt.Volumes, mounts: opt.VolumeMounts, layers: opt.LayerMounts, index: &m.index,
		dir: filepath.Join(opt.Root, "containers"), events: opt.Events, log: opt.Log,
	}
	m.images = &imageMounts{images: opt.Images}
	m.etc = &etcFiles{index: &m.index, emulateIDs: opt.EmulateIDs, log: opt.Log}
	m.links = &links{index: &m.index, log: opt.Log}
	m.networks = &Networks{
		index: &m.index, driver: opt.Networks, store: opt.NetworkStore, links: m.links, etc: m.etc, events: opt.Events, log: opt.Log,
	}
	m.namespaces = &namespaces{index: &m.index, shmDir: filepath.Join(opt.RunDir, "shm"), log: opt.Log}
	m.files = &Files{
		index: &m.index, layers: m.layers, volumes: opt.VolumeMounts, images: m.images, userns: m.userns, etc: m.etc,
		differences: opt.Differences,
	}
}

// makeProcessParts makes what begins, follows and ends the processes of containers, and the containers themselves.
func (m *Manager) makeProcessParts() {
	opt := &m.opt
	m.cgroups = &cgroups{base: opt.CgroupBase}
	m.records = &records{folders: m.folders, damage: opt.Damage, bootID: opt.BootID, driver: opt.Layers.Driver(), log: opt.Log}
	m.lives = &lives{events: opt.Events, log: opt.Log, volumes: m.volumes, networks: m.networks, verbs: m}
	m.freezer = &freezer{lives: m.lives, log: opt.Log}
	m.limits = &limits{specs: opt.Specs, cgroups: m.cgroups, unified: opt.Controllers.Unified, log: opt.Log}
	m.stopper = &stopper{lives: m.lives, freezer: m.freezer, events: opt.Events}
	m.follower = &follower{
		lives: m.lives, freezer: m.freezer, background: &m.background, folders: m.folders, cgroups: m.cgroups, layers: m.layers,
		volumes: m.volumes, networks: m.networks, log: opt.Log,
	}
	m.launcher = &launcher{
		opt: opt, folders: m.folders, lives: m.lives, follower: m.follower, records: m.records, cgroups: m.cgroups,
		namespaces: m.namespaces, links: m.links, networks: m.networks, layers: m.layers, volumes: m.volumes,
		images: m.images, userns: m.userns, etc: m.etc, init: &initProgram{source: opt.Init, copied: filepath.Join(opt.RunDir, "init")},
	}
	m.leftovers = &leftovers{
		index: &m.index, folders: m.folders, tasks: opt.Tasks, layers: m.layers, cgroups: m.cgroups, bootID: opt.BootID, log: opt.Log,
	}
	m.takeover = &takeover{
		index: &m.index, folders: m.folders, records: m.records, lives: m.lives, freezer: m.freezer, follower: m.follower,
		leftovers: m.leftovers, background: &m.background, namespaces: m.namespaces, networks: m.networks, layers: m.layers,
		store: opt.Layers, volumes: m.volumes, etc: m.etc, bootID: opt.BootID, log: opt.Log,
	}
	m.maker = &maker{
		opt: opt, index: &m.index, folders: m.folders, networks: m.networks, layers: m.layers, volumes: m.volumes, images: m.images,
		userns: m.userns,
	}
	m.remover = &remover{
		index: &m.index, folders: m.folders, bootID: opt.BootID, events: opt.Events, lives: m.lives, leftovers: m.leftovers,
		networks: m.networks, layers: m.layers, volumes: m.volumes,
	}
}

// makeViews makes what callers get beside the verbs.
func (m *Manager) makeViews() {
	opt := &m.opt
	m.viewers = &Viewers{
		index: &m.index, events: opt.Events, logs: &logReader{folders: m.folders}, closing: m.background.life.Done(),
	}
	m.inventory = &Inventory{
		index: &m.index, links: m.links, layers: opt.Layers, images: opt.Images, networks: opt.NetworkStore,
	}
	m.commits = &Commits{
		index: &m.index, freezer: m.freezer, layers: m.layers, store: opt.Layers, images: opt.Images, events: opt.Events,
	}
	m.steps = &Steps{index: &m.index, maker: m.maker, remover: m.remover, layers: m.layers, commits: m.commits}
}

// Viewers returns what shows clients the output of containers.
func (m *Manager) Viewers() *Viewers { return m.viewers }

// Inventory returns what finds and lists the containers.
func (m *Manager) Inventory() *Inventory { return m.inventory }

// Commits returns what makes images of containers.
func (m *Manager) Commits() *Commits { return m.commits }

// Steps returns what makes containers for builds.
func (m *Manager) Steps() *Steps { return m.steps }

// Files returns what shows the files of the containers.
func (m *Manager) Files() *Files { return m.files }

// Networks returns what connects the containers with networks.
func (m *Manager) Networks() *Networks { return m.networks }
