package bridge

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// replyPriority is where the rule for replies stands: before that of the main table, 32766.
const replyPriority = 100

// routeReplies delivers packets with the reply mark here, whatever address they are for.
func (f *Fabric) routeReplies(l *live) error {
	if f.opts.ReplyMark == 0 {
		return nil
	}
	families := map[int]*net.IPNet{unix.AF_INET: {IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}}
	if l.has6 {
		families[unix.AF_INET6] = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	for family, all := range families {
		rule := netlink.NewRule()
		rule.Family, rule.Mark, rule.Table, rule.Priority = family, f.opts.ReplyMark, f.opts.ReplyTable, replyPriority
		if err := l.handle.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("route replies to the port forwarder: %w", err)
		}
		route := &netlink.Route{
			LinkIndex: loopback, Table: f.opts.ReplyTable, Dst: all, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST, Family: family,
		}
		if err := l.handle.RouteReplace(route); err != nil {
			return fmt.Errorf("route replies to the port forwarder: %w", err)
		}
	}
	return nil
}
