package config

// swarmSettings are about this node's part in a swarm.
func swarmSettings() []setting {
	return []setting{
		{
			"swarm-dir", "MOSS_SWARM_DIR", "folder of this node's part in a swarm, on a local disk; default: swarm in root",
			allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.SwarmDir, v[0], env) },
		},
		{
			"swarm-host-folder", "MOSS_SWARM_HOST_FOLDERS",
			"folder of this host that services of a swarm may mount, with all below it; default: none; may be given several times",
			allowedPath, true,
			func(c *Config, v []string, env func(string) string) error {
				return setPaths(&c.SwarmHostFolders, v, env)
			},
		},
	}
}

func setPaths(to *[]string, values []string, env func(string) string) error {
	list := make([]string, len(values))
	for i, v := range values {
		if err := setPath(&list[i], v, env); err != nil {
			return err
		}
	}
	*to = list
	return nil
}
