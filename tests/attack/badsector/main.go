// The program badsector serves a FUSE file system that shows a folder and answers EIO to reads of one file, as a disk with a
// bad sector does. All else works on that file too: it is found, renamed and removed, and once it is cut to nothing it is whole.
//
//	badsector FOLDER DEVICE FILE
//
// FILE is a path below FOLDER: a file, a link or a folder. DEVICE is /dev/fd/N, where N is the descriptor that fusermount3
// passes on. The program ends with the mount.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: badsector FOLDER DEVICE FILE")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "badsector:", err)
		os.Exit(1)
	}
}

func serve(folder, device, file string) error {
	// The open file keeps its inode's number from being used again.
	handle, err := unix.Open(filepath.Join(folder, file), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(handle) //nolint:errcheck // nothing was written
	var bad unix.Stat_t
	if err := unix.Fstat(handle, &bad); err != nil {
		return fmt.Errorf("look at %s: %w", file, err)
	}
	whole := &atomic.Bool{}
	root := &fs.LoopbackRoot{Path: folder, Dev: bad.Dev}
	//nolint:staticcheck // NodeWrapChilder, which is to be used instead, is not told the inode's number
	root.NewNode = func(_ *fs.LoopbackRoot, _ *fs.Inode, _ string, st *syscall.Stat_t) fs.InodeEmbedder {
		if st.Ino == bad.Ino {
			return &badNode{LoopbackNode: fs.LoopbackNode{RootData: root}, whole: whole}
		}
		return &fs.LoopbackNode{RootData: root}
	}
	root.RootNode = &fs.LoopbackNode{RootData: root}
	server, err := fs.Mount(device, root.RootNode, nil)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	server.Wait()
	return nil
}

// badNode is the file that cannot be read.
type badNode struct {
	fs.LoopbackNode
	whole *atomic.Bool // it was cut to nothing
}

// Open gives a handle that cannot be read.
func (n *badNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != fs.OK {
		return nil, 0, errno
	}
	if flags&syscall.O_TRUNC != 0 {
		n.whole.Store(true)
	}
	return &badFile{LoopbackFile: handle.(*fs.LoopbackFile), whole: n.whole}, fuseFlags, fs.OK
}

// Setattr makes the file whole when it is cut to nothing.
func (n *badNode) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	errno := n.LoopbackNode.Setattr(ctx, f, in, out)
	if size, ok := in.GetSize(); ok && size == 0 && errno == fs.OK {
		n.whole.Store(true)
	}
	return errno
}

// Readlink fails: the file is a link.
func (n *badNode) Readlink(context.Context) ([]byte, syscall.Errno) { return nil, syscall.EIO }

// OpendirHandle fails: the file is a folder.
func (n *badNode) OpendirHandle(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, syscall.EIO
}

// Lookup fails for what is in the folder.
func (n *badNode) Lookup(context.Context, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EIO
}

// badFile is an open file that cannot be read.
type badFile struct {
	*fs.LoopbackFile
	whole *atomic.Bool
}

// Read fails until the file was cut to nothing.
func (f *badFile) Read(ctx context.Context, buf []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if !f.whole.Load() {
		return nil, syscall.EIO
	}
	return f.LoopbackFile.Read(ctx, buf, off)
}

// PassthroughFd keeps the kernel from reading the file below by itself.
func (f *badFile) PassthroughFd() (int, bool) { return 0, false }
