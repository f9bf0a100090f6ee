package oci

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// scoreFile holds what the kernel's OOM killer adds to a process's score. A child inherits it.
const scoreFile = "/proc/self/oom_score_adj"

// startScored starts a call whose processes get a value of oom_score_adj above this process's own: crun (1.8) sets that of
// a container's first process only. This process has the value while it forks. Lower ones take privileges of the real
// root, so they are left out.
func (r *Runtime) startScored(cmd *exec.Cmd, adj int) error {
	r.scoring.Lock()
	defer r.scoring.Unlock()
	raw, err := os.ReadFile(scoreFile)
	if err != nil {
		return err
	}
	own := strings.TrimSpace(string(raw))
	if n, err := strconv.Atoi(own); err != nil || adj <= n {
		return cmd.Start()
	}
	if err := os.WriteFile(scoreFile, []byte(strconv.Itoa(adj)), 0); err != nil {
		return err
	}
	defer os.WriteFile(scoreFile, []byte(own), 0) //nolint:errcheck // the kernel lets a process go back to what it had
	return cmd.Start()
}
