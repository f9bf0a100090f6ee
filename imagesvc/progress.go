package imagesvc

import (
	"sync/atomic"
	"time"

	"moss/engine/image"
)

// reportEvery is how often a layer's progress is told: clients redraw a line for each message.
const reportEvery = 100 * time.Millisecond

// phase is how far a layer has come. The words are those that clients know.
type phase int32

const (
	phaseKnown phase = iota
	phaseWaiting
	phaseDownloading
	phaseVerifying
	phaseDownloaded
	phaseExtracting
	phaseStaged
)

// String returns the phase as clients see it.
func (p phase) String() string {
	switch p {
	case phaseKnown:
		return "Pulling fs layer"
	case phaseWaiting:
		return "Waiting"
	case phaseDownloading:
		return "Downloading"
	case phaseVerifying:
		return "Verifying Checksum"
	case phaseDownloaded:
		return "Download complete"
	case phaseExtracting:
		return "Extracting"
	case phaseStaged:
		return "Pull complete"
	default:
		return ""
	}
}

// meter says how far a layer has come. Who works on it moves it on, and any number of pulls look at it.
type meter struct {
	at    atomic.Int32
	bytes atomic.Int64 // of the blob that came so far
}

// reachPhase moves the meter on; it never goes back.
func (m *meter) reachPhase(p phase) {
	for {
		old := m.at.Load()
		if old >= int32(p) || m.at.CompareAndSwap(old, int32(p)) {
			return
		}
	}
}

// layerLine is what one client has been told of one layer.
type layerLine struct {
	id    string // 12 digits
	total int64
	shown phase
	bytes int64
}

// reportChanges reports what has changed since the last time. A phase that has been passed meanwhile is told once, but for
// waiting. The last one is left to reportEnd.
func (l *layerLine) reportChanges(m *meter, progress func(image.Progress)) {
	at := min(phase(m.at.Load()), phaseExtracting)
	for l.shown < at {
		l.shown++
		if l.shown == phaseWaiting && at > phaseWaiting {
			continue
		}
		p := image.Progress{ID: l.id, Status: l.shown.String()}
		switch l.shown {
		case phaseDownloading:
			l.bytes = l.total
			if at == phaseDownloading {
				l.bytes = m.bytes.Load()
			}
			p.Current, p.Total = l.bytes, l.total
		case phaseExtracting: // It runs along with the download: nothing of it is left to count.
			p.Current, p.Total = l.total, l.total
		case phaseKnown, phaseWaiting, phaseVerifying, phaseDownloaded, phaseStaged:
		}
		progress(p)
	}
	if n := m.bytes.Load(); l.shown == phaseDownloading && n != l.bytes {
		l.bytes = n
		progress(image.Progress{ID: l.id, Status: l.shown.String(), Current: n, Total: l.total})
	}
}

// reportEnd reports the last phase.
func (l *layerLine) reportEnd(m *meter, progress func(image.Progress)) {
	l.reportChanges(m, progress)
	if l.shown < phaseStaged {
		l.shown = phaseStaged
		progress(image.Progress{ID: l.id, Status: l.shown.String()})
	}
}
