package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// Store is the storage of the log. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// InTx reports whether ctx is that of a transaction.
	InTx(ctx context.Context) bool
	ChainStore
	SettingStore
}

// ChainStore keeps chains of sealed rows.
type ChainStore interface {
	InsertAudit(ctx context.Context, r Row) error
	// AuditTail is the number and the seal of a chain's last row; 0 and "" when it has none.
	AuditTail(ctx context.Context, chain string) (seq int64, seal string, err error)
	// AuditSeal is the seal of one row.
	AuditSeal(ctx context.Context, chain string, seq int64) (string, error)
	AuditRows(ctx context.Context, q Query) ([]Row, error)
	// AuditChains are the chains that have rows.
	AuditChains(ctx context.Context) ([]string, error)
	// AuditBefore is the last row of those at a chain's beginning that are all older than at (ms UTC); 0 and "" when there are none.
	AuditBefore(ctx context.Context, chain string, at int64) (seq int64, seal string, err error)
	// DropAudit removes a chain's rows up to one.
	DropAudit(ctx context.Context, chain string, through int64) error
}

// SettingStore keeps settings of the instance.
type SettingStore interface {
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
}

// Config is what a Log is made of.
type Config struct {
	Store  Store
	Sealer Sealer
	// Heads is the file, apart from the database, that records the position of each chain, so that the server notices when the end of
	// one is cut off. "" = none.
	Heads string
	// Reserve is the file in which entries wait while the store has no room. Only one process may have a Log with it. "" = none: then they
	// fail.
	Reserve string
	// KeepDays is after how many days entries are dropped; 0 = never.
	KeepDays int
	Now      func() time.Time // nil = time.Now
	Log      *slog.Logger
}

// Log is the audit. Safe for concurrent use; it starts nothing.
type Log struct {
	cfg     Config
	keys    atomic.Pointer[[][]byte]
	bounds  *bounds
	reserve *reserve // nil = none

	mu    sync.Mutex // of what follows
	queue []*waiting
	busy  bool              // somebody writes the queue
	dirty map[string]moment // chains that may have grown since their heads were kept
	wake  chan struct{}
}

// moment is how far a chain was said to be when.
type moment struct {
	seq int64
	at  time.Time
}

// waiting is a row that is to be written with others.
type waiting struct {
	row  Row
	done chan error
	lead chan struct{} // closed when it is this one's turn to write
}

// New returns a Log.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	l := &Log{cfg: cfg, bounds: newBounds(cfg.Now), dirty: map[string]moment{}, wake: make(chan struct{}, 1)}
	if cfg.Reserve != "" {
		l.reserve = &reserve{path: cfg.Reserve, log: cfg.Log}
	}
	return l
}

var _ Appender = (*Log)(nil)

// row makes the row of an entry, except its position and seal.
func (l *Log) row(ctx context.Context, e Entry) (Row, error) {
	if e.Chain == "" || e.Action == "" {
		return Row{}, errors.New("an entry of the audit needs a chain and an action")
	}
	s := SourceOf(ctx)
	s.Kind = cmp.Or(s.Kind, ByNobody)
	e.Result = cmp.Or(e.Result, Done)
	if s.Client != "" {
		e.Data = maps.Clone(e.Data)
		if e.Data == nil {
			e.Data = map[string]string{}
		}
		e.Data["client"] = s.Client
	}
	return Row{Chain: e.Chain, ID: id.New("aud"), At: l.cfg.Now().UnixMilli(),
		Source: Source{Kind: plain(s.Kind, 32), ActorID: plain(s.ActorID, 64), ActorName: plain(s.ActorName, maxText), Credential: plain(s.Credential, 64),
			IP: plain(s.IP, 64), RequestID: plain(s.RequestID, 64)},
		Action: plain(e.Action, 64), TargetKind: plain(e.TargetKind, 64), TargetID: plain(e.TargetID, 64), TargetName: plain(e.TargetName, maxText),
		Result: e.Result, Code: plain(e.Code, 64), Data: cleaned(e.Data)}, nil
}

// Append adds an entry. Inside a transaction it is part of it; else it has been written when Append returns, even when ctx ends
// meanwhile: into the store or, while that is full, into the reserve.
func (l *Log) Append(ctx context.Context, e Entry) error {
	r, err := l.row(ctx, e)
	if err != nil {
		return err
	}
	if l.cfg.Store.InTx(ctx) {
		return l.write(ctx, []Row{r})
	}
	return l.join(ctx, r)
}

// patience bounds how long the writing of entries may take.
const patience = 15 * time.Second

// mostTogether bounds how many rows one transaction writes.
const mostTogether = 200

// join writes a row together with those of other callers that wait: the first caller writes for all, so that many small entries cost
// one commit.
func (l *Log) join(ctx context.Context, r Row) error {
	w := &waiting{row: r, done: make(chan error, 1), lead: make(chan struct{})}
	l.mu.Lock()
	l.queue = append(l.queue, w)
	if !l.busy {
		l.busy = true
		close(w.lead)
	}
	l.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-w.lead:
	}
	l.lead(ctx)
	return <-w.done
}

// lead writes what waits, once, and hands on to the next that has come meanwhile.
func (l *Log) lead(ctx context.Context) {
	l.mu.Lock()
	batch := l.queue
	if len(batch) > mostTogether {
		batch = batch[:mostTogether]
	}
	l.queue = l.queue[len(batch):]
	l.mu.Unlock()

	rows := make([]Row, len(batch))
	for i, w := range batch {
		rows[i] = w.row
	}
	kept, err := l.record(context.WithoutCancel(ctx), rows)

	l.mu.Lock()
	if len(l.queue) > 0 {
		close(l.queue[0].lead)
	} else {
		l.queue, l.busy = nil, false
	}
	l.mu.Unlock()
	for i, w := range batch {
		if i < kept {
			w.done <- nil
		} else {
			w.done <- err
		}
	}
}

// write puts rows at the ends of their chains, inside a transaction.
func (l *Log) write(ctx context.Context, rows []Row) error {
	keys, err := l.ring(ctx)
	if err != nil {
		return err
	}
	key := keys[len(keys)-1]
	type end struct {
		seq  int64
		seal string
	}
	ends := map[string]end{}
	for _, r := range rows {
		at, known := ends[r.Chain]
		if !known {
			if at.seq, at.seal, err = l.cfg.Store.AuditTail(ctx, r.Chain); err != nil {
				return fmt.Errorf("reading the end of the audit: %w", err)
			}
		}
		r.Seq = at.seq + 1
		r.Seal = r.sealWith(key, at.seal)
		if err := l.cfg.Store.InsertAudit(ctx, r); err != nil {
			return fmt.Errorf("adding to the audit: %w", err)
		}
		ends[r.Chain] = end{r.Seq, r.Seal}
	}
	l.mu.Lock()
	for chain, at := range ends {
		l.dirty[chain] = moment{at.seq, l.cfg.Now()}
	}
	l.mu.Unlock()
	tasks.Wake(l.wake)
	return nil
}
