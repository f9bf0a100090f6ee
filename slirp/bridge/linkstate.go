package bridge

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refreshLinkState has the kernel draw its conclusions from a cable that has just been plugged in: that a port of the bridge
// forwards, and that the bridge sends. It does so some time later on its own, and what is sent before then is lost; a
// neighbour asks again after a second only. To be asked for the state of the link makes it look at once
// (ethtool_op_get_link in net/ethtool/ioctl.c; RTM_GETLINK does so from Linux 6.14 on).
func (l *live) refreshLinkState(devices ...string) error {
	for _, name := range devices {
		value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GLINK}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte // the rest of struct ifreq
		}{data: unsafe.Pointer(&value)} //nolint:gosec // as netdevice(7) has it
		copy(request.name[:unix.IFNAMSIZ-1], name)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.packet), unix.SIOCETHTOOL,
			uintptr(unsafe.Pointer(&request))) //nolint:gosec // likewise
		runtime.KeepAlive(&value)
		if errno != 0 {
			return fmt.Errorf("ask for the link of %s: %w", name, errno)
		}
	}
	return nil
}
