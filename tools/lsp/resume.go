package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// versionsOfRun is how many versions the documents of one run of Parawork may have: what a server still says about a text of an earlier run
// has a lower version.
const versionsOfRun = 1_000_000

// Record is what the next run of Parawork has to know of a language server, which goes on without it.
type Record struct {
	WorkspaceID string
	Language    string
	ProcessID   string
	State       RecordState
}

// RecordState is the state of a server, as Parawork knows it.
type RecordState struct {
	Found     languages.Found
	Abilities json.RawMessage // as it said them
	Pulls     bool            // it wants to be asked for diagnostics
	Version   int             // of its documents, at least
	Read      int64           // bytes of its output that were taken: some servers end when a request of theirs is answered twice
	Open      []string        // its documents
	Known     []string        // files that differed from the base at some time: it may know them otherwise than they are when it is found again
}

// maxState is about how many bytes a state may have.
const maxState = 1 << 20

func (s RecordState) size() int {
	n := len(s.Abilities)
	for _, file := range slices.Concat(s.Open, s.Known) {
		n += len(file)
	}
	return n
}

// Records keeps one Record for each language of a workspace.
type Records interface {
	// Record returns it; with ProcessID "" there is none.
	Record(ctx context.Context, workspaceID, language string) (Record, error)
	// SaveRecord replaces it.
	SaveRecord(ctx context.Context, r Record) error
	// DeleteRecord forgets the record of a process.
	DeleteRecord(ctx context.Context, workspaceID, processID string) error
}

// errNotResumed is the error of a server that an earlier run started and that does not go on. Another one is started in its place.
var errNotResumed = errors.New("it did not go on after a restart of Parawork")

// inherit returns the servers in a sandbox that an earlier run left and that can go on, by language, and ends the others. language "" means
// all.
func (s *Service) inherit(p *executors.Place, language string) map[string]Record {
	ctx, cancel := context.WithTimeout(s.life, startWithin)
	defer cancel()
	if p.Asleep() {
		return nil // they are looked for when one is needed
	}
	all, err := p.Guest.Processes(ctx)
	if err != nil {
		return nil
	}
	out := map[string]Record{}
	for _, l := range languages.All() {
		if language != "" && l.ID != language {
			continue
		}
		record, err := s.cfg.Records.Record(ctx, p.WorkspaceID, l.ID)
		if err != nil {
			s.cfg.Log.Warn("what is known of a language server could not be read", "workspace_id", p.WorkspaceID, "language", l.ID, "error", err)
		}
		for _, proc := range all {
			if !strings.HasPrefix(proc.ID, processPrefix+l.ID) || s.ours(proc.ID) {
				continue
			}
			if proc.State == guest.Running && proc.ID == record.ProcessID {
				out[l.ID] = record
				continue
			}
			if proc.State == guest.Running {
				if _, err := p.Guest.Stop(ctx, proc.ID, endGrace); err != nil {
					s.cfg.Log.Warn("a language server of an earlier run could not be ended", "sandbox_id", p.SandboxID, "process_id", proc.ID, "error", err)
					continue
				}
				s.cfg.Log.Info("a language server of an earlier run was ended", "sandbox_id", p.SandboxID, "process_id", proc.ID)
			}
			_ = p.Guest.Remove(ctx, proc.ID) // a guest forgets ended processes by itself
		}
	}
	return out
}

// takeOver makes a process that an earlier run started the server's own.
func (sv *server) takeOver(ctx context.Context, r Record) error {
	proc, err := sv.place.Guest.Process(ctx, r.ProcessID)
	if err != nil {
		return fmt.Errorf("looking for the language server for %s: %w", sv.lang.Title, err)
	}
	if err := json.Unmarshal(r.State.Abilities, &sv.caps); err != nil {
		return fmt.Errorf("reading the abilities of a language server: %w", err)
	}
	sv.s.mu.Lock()
	delete(sv.s.ids, sv.id)
	sv.id = r.ProcessID
	sv.s.ids[sv.id] = true
	sv.s.mu.Unlock()
	sv.found, sv.abilities, sv.resumed = r.State.Found, r.State.Abilities, true
	sv.docs.known, sv.docs.ever = map[string]string{}, map[string]bool{}
	for _, file := range r.State.Known {
		sv.docs.known[file], sv.docs.ever[file] = "unknown", true
	}
	sv.docs.left, sv.docs.version = r.State.Open, r.State.Version+versionsOfRun
	sv.began.Store(r.State.Read)
	sv.conn.Resume()
	sv.mu.Lock()
	defer sv.mu.Unlock()
	sv.pid, sv.since, sv.pulls = proc.Pid, proc.StartedAt, r.State.Pulls
	return nil
}

// resume waits until the server has answered everything of the earlier run, and closes what that one had open.
func (sv *server) resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	// No server knows this request, and each answers it, after what it wrote before.
	err := sv.conn.Call(ctx, "$/parawork/resume", struct{}{}, nil)
	if refused := new(protocol.ResponseError); err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errNotResumed, err)
	}
	for _, file := range sv.docs.left {
		if err := sv.conn.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": sv.uri(file)}}); err != nil {
			return fmt.Errorf("%w: %w", errNotResumed, err)
		}
	}
	return nil
}

// save records the state of the server if it has changed. file is about to be opened; "" for none. Called with the turn of the documents held.
func (sv *server) save(ctx context.Context, file string) error {
	sv.mu.Lock()
	pulls := sv.pulls
	sv.mu.Unlock()
	open := slices.Collect(maps.Keys(sv.docs.open))
	if file != "" && sv.docs.open[file] == nil {
		open = append(open, file)
	}
	slices.Sort(open)
	r := Record{WorkspaceID: sv.place.WorkspaceID, Language: sv.lang.ID, ProcessID: sv.id,
		State: RecordState{Found: sv.found, Abilities: sv.abilities, Pulls: pulls, Version: sv.docs.version, Open: open, Known: slices.Sorted(maps.Keys(sv.docs.ever))}}
	if len(r.State.Known) > maxEvents || r.State.size() > maxState { // too much to bring up to date, or to write down so often
		r.ProcessID, r.State = "", RecordState{}
	}
	r.State.Read = sv.docs.saved.State.Read
	if !sv.answered.Swap(false) && reflect.DeepEqual(r, sv.docs.saved) {
		return nil
	}
	r.State.Read = sv.began.Load() + sv.conn.Taken()
	if err := sv.s.cfg.Records.SaveRecord(ctx, r); err != nil {
		sv.answered.Store(true)
		return err
	}
	sv.docs.saved = r
	return nil
}

// How often a server may have its record saved by requests of its own.
const (
	savesPerSecond = 5
	savesAtOnce    = 50
)

// saveSoon records what the server itself changed, and which of its requests were answered.
func (sv *server) saveSoon() {
	if !sv.pace.Allow() || !sv.saving.CompareAndSwap(false, true) {
		return // the next question saves it
	}
	sv.s.work.Go(func() {
		ctx, cancel := context.WithTimeout(sv.s.life, askWithin)
		defer cancel()
		unlock, err := sv.docs.turn.Lock(ctx)
		sv.saving.Store(false)
		if err != nil {
			return
		}
		defer unlock()
		select {
		case <-sv.ready:
			_ = sv.save(ctx, "") // so does the next question
		default: // it is saved once it can be asked
		}
	})
}
