package history

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/sessions/journal"
)

// Row is what the package needs of a session.
type Row struct {
	ID, WorkspaceID    string
	Agent, AgentName   string
	Cols, Rows         uint16
	Bytes              int64
	StartedAt, EndedAt int64
	Ended              bool
}

// Host is the recorded session.
type Host interface {
	// Row returns the session as it is now.
	Row() Row
	// Hide returns a function that masks any secrets in a text; it preserves the text's length in bytes.
	Hide(ctx context.Context) (func(text string) string, error)
	// Answer types the terminal's answer to the program: between two inputs of a person, not in the middle of a paste.
	Answer(ctx context.Context, p []byte) error
	// Release gives back a reference to the session.
	Release()
}

// Recording holds the output of one session, its journal, and the resulting screen. It belongs to the session, or to the reader
// of an ended one. Safe for concurrent use.
type Recording struct {
	all  *Recordings
	id   string
	host Host
	done <-chan struct{} // closed when the session has ended

	log      *bytelog.Log
	notes    *journal.Journal
	size0    guest.Size // the size where the journal has none
	keys     keys
	touched  touched
	model    model
	throttle throttle
	indexed  int64 // offset up to which search files are written; only the packing loop uses it
	keptAt   int64 // end of the log when it was last queued for packing; only the appender uses it
}

// Record opens the recording of a session; done is closed when the session has ended. The caller closes the recording.
func (s *Recordings) Record(row Row, host Host, done <-chan struct{}) (*Recording, error) {
	log, err := bytelog.Open(bytelog.Config{Dir: s.dir(row.ID), MaxBytes: s.cfg.MaxLogBytes, RingBytes: s.cfg.RingBytes, Codec: packer, Filled: !row.Ended})
	if err != nil {
		return nil, fmt.Errorf("opening the log of session %s: %w", row.ID, err)
	}
	notes, err := s.openJournal(row.ID, log)
	if err != nil {
		_ = log.Close() // nothing was written
		return nil, err
	}
	r := &Recording{all: s, id: row.ID, host: host, done: done, log: log, notes: notes, size0: guest.Size{Cols: row.Cols, Rows: row.Rows}}
	_, end := log.Bounds()
	r.model.r, r.model.off, r.model.from = r, end, nobody
	if row.Ended {
		log.Finish()
	} else if r.model.from = r.openAnswered(end); r.model.from < end {
		r.model.off = r.model.from // it has something to read at once
	}
	return r, nil
}

// Log is the output, with secrets masked.
func (r *Recording) Log() *bytelog.Log { return r.log }

// Journal records when output came, and the sizes, states and people at the terminal.
func (r *Recording) Journal() *journal.Journal { return r.notes }

// Close writes what waits and closes the recording.
func (r *Recording) Close() error {
	r.Flush(true)
	return r.log.Close()
}

// over reports whether the session has ended.
func (r *Recording) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// reader is a recording held open for a reader, during the session and after it. The reader closes it.
type reader struct {
	*Recording
	close func()
}

// Close releases the recording.
func (r *reader) Close() { r.close() }

// open opens the recording of a session. Errors: not_found, and why it cannot be read now.
func (s *Recordings) open(ctx context.Context, id string) (*reader, error) {
	r, release, err := s.cfg.Sessions.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return &reader{r, release}, nil
}
