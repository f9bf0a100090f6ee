// The program hungdisk serves a FUSE file system that shows a folder, and whose disk hangs when it is told to: what writes to a
// log then waits in the kernel, where no signal reaches it.
//
//	hungdisk FOLDER MOUNTPOINT
//
// It says "ready" once it is mounted, and "thread ID waits" of each write that does. SIGUSR1 makes it hang, SIGUSR2 lets what
// waits go on. It ends with the mount.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hungdisk FOLDER MOUNTPOINT")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hungdisk:", err)
		os.Exit(1)
	}
}

func serve(folder, mountpoint string, told io.Writer) error {
	var st syscall.Stat_t
	if err := syscall.Stat(folder, &st); err != nil {
		return fmt.Errorf("look at %s: %w", folder, err)
	}
	d := &disk{told: told}
	d.goesOn = sync.NewCond(&d.mu)
	root := &fs.LoopbackRoot{Path: folder, Dev: st.Dev}
	//nolint:staticcheck // NodeWrapChilder, which is to be used instead, is not told the name
	root.NewNode = func(_ *fs.LoopbackRoot, _ *fs.Inode, name string, _ *syscall.Stat_t) fs.InodeEmbedder {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: root}, disk: d, log: isLog(name)}
	}
	root.RootNode = &node{LoopbackNode: fs.LoopbackNode{RootData: root}, disk: d}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	server, err := fs.Mount(mountpoint, root.RootNode, nil)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	go func() {
		for sig := range signals {
			d.setHanging(sig == syscall.SIGUSR1)
		}
	}()
	if _, err := fmt.Fprintln(told, "ready"); err != nil {
		return fmt.Errorf("tell that it is ready: %w", err)
	}
	server.Wait()
	return nil
}

func isLog(name string) bool { return strings.HasSuffix(name, "-json.log") }

// disk hangs or works.
type disk struct {
	told io.Writer

	mu     sync.Mutex // guards hangs
	goesOn *sync.Cond
	hangs  bool
}

func (d *disk) setHanging(hangs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = hangs
	d.goesOn.Broadcast()
}

// waitUntilWorking returns once the disk works.
func (d *disk) waitUntilWorking(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if caller, ok := fuse.FromContext(ctx); ok && d.hangs {
		_, _ = fmt.Fprintf(d.told, "thread %d waits\n", caller.Pid) // who reads it fails without
	}
	for d.hangs {
		d.goesOn.Wait()
	}
}

type node struct {
	fs.LoopbackNode
	disk *disk
	log  bool
}

// Create gives a handle whose writes may hang, of a log.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, handle, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno == fs.OK && isLog(name) {
		handle, fuseFlags = n.openLog(handle, fuseFlags)
	}
	return inode, handle, fuseFlags, errno
}

// Open gives a handle whose writes may hang, of a log.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	if errno == fs.OK && n.log {
		handle, fuseFlags = n.openLog(handle, fuseFlags)
	}
	return handle, fuseFlags, errno
}

// openLog gives the handle of a log. What it reads and writes goes past the kernel's cache, in which a write that waits may hold
// the page that a reader wants: whether a log can be read meanwhile would be left to chance.
func (n *node) openLog(handle fs.FileHandle, flags uint32) (fs.FileHandle, uint32) {
	return &file{LoopbackFile: handle.(*fs.LoopbackFile), disk: n.disk}, flags | fuse.FOPEN_DIRECT_IO
}

// file is the open file of a log.
type file struct {
	*fs.LoopbackFile
	disk *disk
}

// Write waits for the disk.
func (f *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	f.disk.waitUntilWorking(ctx)
	return f.LoopbackFile.Write(ctx, data, off)
}

// PassthroughFd keeps the kernel from writing the file below by itself.
func (f *file) PassthroughFd() (int, bool) { return 0, false }
