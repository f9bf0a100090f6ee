// Package proto is what the engine and a container's shim say to each other: the files in the task's folder, the
// requests on its socket, and the record of the end. Both sides link it, so it stays small; it opens no socket.
//
// Every request has a connection of its own: one Request, one Reply, each as four bytes of length in big endian and that
// many bytes of JSON. After the reply to OpAttach the connection carries the streams, and after the one to OpHold
// nothing more. A request whose connection was closed before the shim has read it is not carried out.
package proto

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"moss/engine/fault"
	"moss/engine/task"
)

// Names of the files in a task's folder.
const (
	SpecFile       = "shim.json"    // the task's Spec, written by the engine before it starts the shim
	SocketFile     = "shim.sock"    // where the shim listens, as long as the task has not ended
	LogFile        = "shim.log"     // the shim's own errors
	ExitFile       = "exit.json"    // the Record, written by the shim when the task has ended
	AliveFile      = "alive.json"   // the Alive, written by the shim when it serves, and again when the container runs
	PidFile        = "pid"          // of the container's first process, written by the runtime
	RuntimeLogFile = "runtime.log"  // the runtime's messages
	ConsoleFile    = "console.sock" // where the runtime delivers the pty, during start only
	ResourcesFile  = "update.json"  // what OpUpdate hands to the runtime, during the call only
	ExecFolder     = "exec"         // holds a folder for each added process, named by its id
)

// ProcessFile is the OCI runtime spec's process object in an added process's folder, written by the engine before OpExec.
// PidFile, RuntimeLogFile, ConsoleFile and ExitFile join it.
const ProcessFile = "process.json"

// ControlFD is the descriptor that the shim inherits: a stream socket on which it sends one Reply when it is ready, and
// whose end before the start tells it that its engine has gone.
const ControlFD = 3

// MaxMessage is the largest message in bytes. The largest real one is the list of a container's many thousand pids.
const MaxMessage = 256 << 10

// Op names a request.
type Op string

// The requests.
const (
	OpStart  Op = "start"  // run the container; replies with Pid and StartedAt
	OpAttach Op = "attach" // join the streams; replies with Mark, then the streams follow
	OpSignal Op = "signal"
	OpResize Op = "resize"
	OpWait   Op = "wait"   // replies with Exit when the task has ended; see RestoreMark
	OpStatus Op = "status" // replies with Pid, StartedAt and Exit
	OpDelete Op = "delete" // ends a shim whose task was never started, or forgets an added process; conflict if it runs
	OpHold   Op = "hold"   // keeps a shim alive whose task was never started
	OpExec   Op = "exec"   // makes an added process known, whose folder holds ProcessFile; conflict if the id is
	OpPause  Op = "pause"
	OpResume Op = "resume"
	OpUpdate Op = "update"
	OpPids   Op = "pids" // replies with Pids
)

// RestoreMark is a byte that may follow the request OpWait of the first process any number of times: the shim writes again what
// is gone of the task's folder, and the socket comes last. There is no reply: the connection is the only way to a shim
// whose folder is gone.
const RestoreMark = 'R'

// Request is one call of the engine. OpStart to OpDelete concern the added process Exec, or the first one if it is empty.
type Request struct {
	Op        Op              `json:"op"`
	Exec      string          `json:"exec,omitempty"`
	Attach    *task.Attach    `json:"attach,omitempty"`
	Signal    int             `json:"signal,omitempty"`
	Terminal  bool            `json:"terminal,omitempty"`  // of OpExec
	OpenStdin bool            `json:"openStdin,omitempty"` // of OpExec
	Width     uint16          `json:"width,omitempty"`     // of OpExec and OpResize
	Height    uint16          `json:"height,omitempty"`
	Resources json.RawMessage `json:"resources,omitempty"` // of OpUpdate
}

// Reply is the shim's answer.
type Reply struct {
	Error *Failure   `json:"error,omitempty"`
	State *Record    `json:"state,omitempty"`
	Mark  *task.Mark `json:"mark,omitempty"`
	Pids  []int      `json:"pids,omitempty"`
}

// Failure is an error on its way through the socket: its kind and its text.
type Failure struct {
	Kind fault.Kind `json:"kind,omitempty"`
	Text string     `json:"text"`
}

// Fail packs an error into a reply.
func Fail(err error) Reply {
	return Reply{Error: &Failure{Kind: fault.KindOf(err), Text: err.Error()}}
}

// Err returns the error of the reply with its kind, nil if there is none.
func (r Reply) Err() error {
	if r.Error == nil {
		return nil
	}
	text := r.Error.Text
	switch r.Error.Kind {
	case fault.KindNotFound:
		return fault.NotFound("%s", text)
	case fault.KindForbidden:
		return fault.Forbidden("%s", text)
	case fault.KindConflict:
		return fault.Conflict("%s", text)
	case fault.KindInvalid:
		return fault.Invalid("%s", text)
	case fault.KindUnavailable:
		return fault.Unavailable("%s", text)
	case fault.KindUnsupported:
		return fault.Unsupported("%s", text)
	case fault.KindInternal, fault.KindNotModified, fault.KindUnauthorized, fault.KindNotAcceptable:
	}
	return errors.New(text)
}

// Write sends one message.
func Write(w io.Writer, msg any) error {
	body, err := json.Marshal(msg)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(body) > MaxMessage {
		return fault.Invalid("message of %d bytes is larger than %d", len(body), MaxMessage)
	}
	buf := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(buf, uint32(len(body))) //nolint:gosec // at most MaxMessage
	_, err = w.Write(append(buf, body...))
	return err
}

// Read receives one message into msg, and reads not one byte beyond it. io.EOF means that the other side closed without
// one, fault.Invalid that it sent something else.
func Read(r io.Reader, msg any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > MaxMessage {
		return fault.Invalid("message of %d bytes is larger than %d", size, MaxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read message of %d bytes: %w", size, err)
	}
	if err := json.Unmarshal(body, msg); err != nil {
		return fault.Invalid("message is not what it should be: %s", err)
	}
	return nil
}
