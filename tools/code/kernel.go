package code

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
)

// kernel is a kernel that this server reads.
type kernel struct {
	s         *Service
	key       kernelKey
	processID string
	place     *executors.Place
	language  guest.KernelLanguage
	gone      chan struct{} // closed when it has ended, or this server has stopped reading it
	ready     chan struct{} // closed when the interpreter has started, or never will

	sendMu   sync.Mutex // one request at a time
	in       *client.Input
	seq      uint64
	last     []byte // the newest line, which begins after frame lastFrom: a cut may have lost it
	lastFrom uint64

	mu      sync.Mutex
	isReady bool
	ended   bool // it takes no more runs
	ending  bool // it has said that its interpreter ended, or is being stopped: nothing more is sent to it
	version string
	failure string         // why the interpreter did not start
	masker  *redact.Masker // only its Text and Again are used
	runs    []*run         // that it has been asked for and that have not ended, in order
}

func (k *kernel) info() (version string, busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version, len(k.runs) > 0
}

// processOf is what the id of a kernel's process says: kernel-LANGUAGE-NAME-UNIQUE.
type processOf struct {
	processID string
	language  guest.KernelLanguage
	name      string
	startedAt int64
}

const processPrefix = "kernel-"

func parseProcess(p guest.Process) (processOf, bool) {
	rest, ok := strings.CutPrefix(p.ID, processPrefix)
	language, rest, found := strings.Cut(rest, "-")
	i := strings.LastIndexByte(rest, '-')
	if !ok || !found || i < 1 || !kernelName.MatchString(rest[:i]) {
		return processOf{}, false
	}
	for _, l := range guest.KernelLanguages {
		if string(l) == language {
			return processOf{p.ID, l, rest[:i], p.StartedAt}, true
		}
	}
	return processOf{}, false
}

// find returns the kernels that run in a sandbox.
func (s *Service) find(ctx context.Context, place *executors.Place) ([]processOf, error) {
	all, err := place.Guest.Processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing kernels: %w", err)
	}
	var out []processOf
	for _, p := range all {
		if of, ok := parseProcess(p); ok && p.State == guest.Running {
			out = append(out, of)
		}
	}
	return out, nil
}

// kernelFor returns the kernel that runs r, and starts it where it does not run yet.
func (s *Service) kernelFor(ctx context.Context, r *run) (*kernel, error) {
	sb := s.cfg.Sandboxes
	if err := sb.Permit(ctx, r.WorkspaceID); err != nil {
		return nil, err
	}
	language := r.Language.kernel()
	if s.cfg.Guard != nil {
		spec, kind, err := sb.Spec(ctx, r.WorkspaceID)
		if err != nil {
			return nil, err
		}
		program := map[guest.KernelLanguage]string{guest.Python: "python3", guest.JavaScript: "node", guest.Shell: "bash"}[language]
		if err := s.cfg.Guard(ctx, kind, spec, command.Request{WorkspaceID: r.WorkspaceID, ActorID: r.UserID, Argv: []string{program}}); err != nil {
			return nil, err
		}
	}
	place, err := sb.Ensure(executors.As(ctx, executors.ForExecution, r.UserID), r.WorkspaceID)
	if err != nil {
		return nil, err
	}
	key := kernelKey{r.WorkspaceID, string(language), r.Kernel}
	unlock, err := s.attaching.LockContext(ctx, key.String())
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.mu.Lock()
	k := s.kernels[key]
	s.mu.Unlock()
	if k != nil && k.place.SandboxID == place.SandboxID && !k.over() {
		if !k.isEnding() {
			return k, nil
		}
		select { // the guest lists it until it has ended
		case <-k.gone:
		case <-time.After(endPatience):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	found, err := s.find(ctx, place)
	if err != nil {
		return nil, err
	}
	processID := ""
	for _, p := range found {
		if p.language == language && p.name == r.Kernel {
			processID = p.processID
		}
	}
	if processID == "" {
		if len(found) >= MaxKernels {
			return nil, fault.New(fault.Conflict, "code_kernels_too_many", "The workspace has %d kernels, the most it may have. Stop one that is no longer needed.", len(found))
		}
		processID = processPrefix + string(language) + "-" + r.Kernel + "-" + strings.ToLower(strings.TrimPrefix(id.New("k"), "k_"))
		r.Fresh = true
	}
	return s.attach(ctx, key, place, processID, r.UserID, r.Fresh)
}

// endPatience is how long the process of a kernel whose interpreter has ended is waited for.
const endPatience = 10 * time.Second

func (k *kernel) isEnding() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ending
}

// setEnding has the next run start another kernel.
func (k *kernel) setEnding() {
	k.mu.Lock()
	k.ending = true
	k.mu.Unlock()
}

func (k *kernel) over() bool {
	select {
	case <-k.gone:
		return true
	default:
		return false
	}
}

// attach begins to read a kernel, and starts its process if it is new. It takes up the runs of it that an earlier server left. The caller
// holds the lock of the key.
func (s *Service) attach(ctx context.Context, key kernelKey, place *executors.Place, processID, userID string, fresh bool) (*kernel, error) {
	k := &kernel{s: s, key: key, processID: processID, place: place, language: guest.KernelLanguage(key.language), gone: make(chan struct{}), ready: make(chan struct{}),
		masker: redact.New(), isReady: !fresh}
	if !fresh {
		close(k.ready) // what it says of itself was read long ago
	}
	ctx = executors.As(ctx, executors.ForExecution, userID)
	given, err := s.cfg.Secrets(ctx, command.Command{WorkspaceID: key.workspaceID, ActorID: userID})
	if err != nil {
		return nil, err
	}
	k.masker.Add(given.Masks...)
	if fresh {
		if err := k.start(ctx, given.Env); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	k.runs = s.lost[processID]
	delete(s.lost, processID)
	for _, r := range k.runs {
		r.mask(k.masker)
		r.release = place.Use()
	}
	s.kernels[key] = k
	s.mu.Unlock()
	s.work.Go(k.follow)
	return k, nil
}

// start starts the process.
func (k *kernel) start(ctx context.Context, env map[string]string) error {
	p, err := k.place.Guest.Start(ctx, guest.ProcessSpec{ID: k.processID, Argv: []string{guest.Self, "kernel", "--memory", strconv.Itoa(kernelBytes), string(k.language)},
		Env: env, Stdin: true, Helper: true, MaxLog: 2*guest.MaxKernelMessage + 4*guest.MaxKernelPrinted})
	if err != nil {
		return fmt.Errorf("starting a kernel: %w", err)
	}
	if reason, failed := strings.CutPrefix(p.Reason, "start_failed: "); failed {
		return fault.New(fault.Unavailable, "code_kernel_failed", "The kernel could not start: %.500s.", strings.TrimSuffix(reason, "."))
	}
	return nil
}

// begin has the kernel run code.
func (s *Service) begin(ctx context.Context, k *kernel, r *run, timeoutMs int64) error {
	select {
	case <-k.ready:
	case <-k.gone:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	k.mu.Lock()
	failure := k.failure
	k.mu.Unlock()
	if failure != "" {
		return fault.New(fault.Unavailable, "code_kernel_failed", "The kernel could not start: %.500s", failure)
	}
	r.mu.Lock()
	text := r.Code
	r.ProcessID, r.SandboxID = k.processID, k.place.SandboxID
	r.Code = clip(k.masker.Text(text), maxStoredCode) // what people read later
	snap := r.Run
	r.mu.Unlock()
	if err := s.cfg.Store.CreateRun(ctx, snap, MaxRuns); err != nil {
		return err
	}
	s.changed(ctx, r.TeamID, r.WorkspaceID, r.ID)
	r.mask(k.masker)
	r.release = k.place.Use()
	k.mu.Lock()
	ended := k.ended
	if !ended {
		k.runs = append(k.runs, r)
	}
	k.mu.Unlock()
	if ended {
		if s.life.Err() == nil {
			_ = s.finish(r, func(r *Run) { r.State, r.Cause = Died, "the kernel ended before it ran the code" })
		}
		return nil
	}
	err := k.send(ctx, guest.KernelRequest{ID: r.ID, Code: text, TypeScript: r.Language == TypeScript, TimeoutMs: timeoutMs})
	if err != nil && s.life.Err() == nil {
		_ = k.finish(r.ID, func(r *Run) { r.State, r.Cause = Lost, "the kernel could not be reached: "+err.Error() })
	}
	return nil // how it ended is in the run
}

// send sends one request, again after a cut: the guest ignores a frame that it has.
func (k *kernel) send(ctx context.Context, q guest.KernelRequest) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(q)
	if err != nil {
		return err
	}
	line := b.Bytes()
	k.sendMu.Lock()
	defer k.sendMu.Unlock()
	synced := k.in != nil
	for attempt := range 5 {
		if k.in == nil {
			if k.in, err = k.place.Guest.Input(k.s.life, k.processID); err != nil {
				if fault.Is(err, fault.NotFound) || ctx.Err() != nil {
					return err
				}
				k.in = nil
				if !pause(ctx, attempt) {
					return err
				}
				continue
			}
			if !synced {
				k.seq, synced = k.in.Last, true // another server's frames, or none
			}
		}
		k.last, k.lastFrom = line, k.seq
		if err = k.write(ctx, line); err == nil {
			return nil
		}
		_ = k.in.Close()
		k.in = nil
		if !pause(ctx, attempt) {
			return err
		}
	}
	return err
}

// resend sends the newest line again after a cut, as far as the guest does not have it.
func (k *kernel) resend() {
	ctx, cancel := context.WithTimeout(k.s.life, 30*time.Second)
	defer cancel()
	k.sendMu.Lock()
	defer k.sendMu.Unlock()
	if k.in == nil || k.last == nil {
		return
	}
	_ = k.in.Close()
	in, err := k.place.Guest.Input(k.s.life, k.processID)
	if err != nil {
		k.in = nil
		return
	}
	k.in = in
	if in.Last < k.seq {
		k.seq = k.lastFrom
		if err := k.write(ctx, k.last); err != nil {
			_ = in.Close()
			k.in = nil
		}
	}
}

// write sends the pieces of a line that the guest does not have yet. A line of up to 1 MiB, quoted, may be larger than a frame.
func (k *kernel) write(ctx context.Context, line []byte) error {
	in := k.in
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // a guest that does not read
	first := k.seq
	for i, at := 0, 0; at < len(line); i++ {
		end := min(at+guest.MaxInput, len(line))
		if seq := first + uint64(i) + 1; seq > k.in.Last {
			if err := k.in.Write(seq, line[at:end]); err != nil {
				return err
			}
		}
		at = end
		if at == len(line) {
			k.seq = first + uint64(i) + 1
		}
	}
	return nil
}

func pause(ctx context.Context, attempt int) bool {
	t := time.NewTimer(50 * time.Millisecond << min(attempt, 5))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *kernel) interrupt(ctx context.Context, runID string) error {
	return k.send(ctx, guest.KernelRequest{ID: runID, Interrupt: true})
}

// follow reads the kernel until it ends, again after each cut of the pipe.
func (k *kernel) follow() {
	off := int64(0)
	why := "the kernel ended"
	for attempt := 0; ; attempt++ {
		before := off
		err := k.readOnce(&off)
		if err == nil || fault.Is(err, fault.NotFound) {
			break
		}
		if k.s.life.Err() != nil {
			k.end("", "")
			return
		}
		if off > before {
			attempt = 0
		}
		k.resend()
		select {
		case <-k.place.Done():
			k.end(fmt.Sprintf("%s: %s", errSandboxEnded, k.place.Reason()), Died)
			return
		default:
		}
		if !pause(k.s.life, attempt) {
			k.end("", "")
			return
		}
	}
	if p, err := k.place.Guest.Process(k.s.life, k.processID); err == nil && p.Reason == "stopped" {
		why = "the kernel was stopped"
	}
	k.end(why, Died)
	ctx, cancel := context.WithTimeout(k.s.life, 30*time.Second)
	defer cancel()
	_ = k.place.Guest.Remove(ctx, k.processID) // ended: nobody needs it
}

// readOnce reads messages from an offset on. nil = the process has ended.
func (k *kernel) readOnce(off *int64) error {
	ctx, cancel := context.WithCancel(k.s.life)
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-k.place.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	out, err := k.place.Guest.SharedOutput(ctx, k.processID, guest.Stdout, *off)
	if err != nil {
		return err
	}
	defer out.Close()
	*off = out.From // what was dropped ends with a message, or the first line here cannot be read
	r := bufio.NewReaderSize(out, 64<<10)
	var held []byte
	long := false
	for {
		piece, err := r.ReadSlice('\n')
		if len(held)+len(piece) > guest.MaxKernelMessage+1 {
			held, long = nil, true
		}
		if !long {
			held = append(held, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			*off += int64(len(piece))
			continue
		}
		if err != nil {
			*off -= int64(len(held) - len(piece)) // the message is read again
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		*off += int64(len(piece))
		if !long {
			k.hear(ctx, bytes.TrimSpace(held), *off)
		}
		held, long = held[:0], false
	}
}

// hear acts on one message. What lies before the oldest run that has not ended is acknowledged: a server that starts again reads the rest.
func (k *kernel) hear(ctx context.Context, line []byte, off int64) {
	var m guest.KernelMessage
	if json.Unmarshal(line, &m) != nil {
		return
	}
	k.mu.Lock()
	oldest := len(k.runs) > 0 && k.runs[0].ID == m.ID
	k.mu.Unlock()
	stored := true
	switch m.Type {
	case guest.KernelReady, guest.KernelFailed:
		k.mu.Lock()
		first := !k.isReady
		k.isReady = true
		if m.Type == guest.KernelReady {
			k.version = clip(k.masker.Text(m.Version), 100)
		} else {
			k.failure = clip(k.masker.Text(m.Text), 2000)
		}
		k.mu.Unlock()
		if first {
			close(k.ready)
		}
	case guest.KernelDone:
		stored = k.done(m) == nil
	default:
		k.mu.Lock()
		r := k.find(m.ID)
		k.mu.Unlock()
		if r != nil {
			r.hear(k, m)
		}
	}
	k.mu.Lock()
	idle := len(k.runs) == 0
	k.mu.Unlock()
	if stored && (idle || oldest && m.Type == guest.KernelDone) {
		_ = k.place.Guest.Ack(ctx, k.processID, guest.Stdout, off) // the guest keeps it longer
	}
}

// find is called under mu.
func (k *kernel) find(runID string) *run {
	for _, r := range k.runs {
		if r.ID == runID {
			return r
		}
	}
	return nil
}

func (k *kernel) done(m guest.KernelMessage) error {
	state := Lost
	if m.State.Known() {
		state = State(m.State)
	}
	if m.Cause != "" { // only an interpreter that ended has one
		k.setEnding()
	}
	return k.finish(m.ID, func(r *Run) {
		r.State, r.TookMs, r.Exit = state, max(m.TookMs, 0), m.Exit
		if r.Cause = clip(k.masker.Text(m.Cause), 1000); r.Cause == "" && state == TimedOut {
			r.Cause = "the time for the code was over"
		}
		r.Truncated = r.Truncated || m.LeftOut > 0
	})
}

// finish ends a run: its record is stored before anybody hears of it.
func (k *kernel) finish(runID string, end func(*Run)) error {
	k.mu.Lock()
	r := k.find(runID)
	for i := range k.runs {
		if k.runs[i] == r {
			k.runs = append(k.runs[:i:i], k.runs[i+1:]...)
			break
		}
	}
	k.mu.Unlock()
	if r == nil {
		return nil
	}
	return k.s.finish(r, end)
}

// finish ends a run that no kernel has any more.
func (s *Service) finish(r *run, end func(*Run)) error {
	r.flush()
	r.mu.Lock()
	end(&r.Run)
	snap := r.Run
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), 30*time.Second)
	defer cancel()
	var err error
	for attempt := range 6 {
		if err = s.cfg.Store.UpdateRun(ctx, snap); err == nil || !pause(ctx, attempt) {
			break
		}
	}
	if err != nil {
		s.cfg.Log.Warn("the end of a run of code could not be stored", "run_id", r.ID, "error", err)
	}
	if r.release != nil {
		r.release()
	}
	s.drop(r)
	close(r.done)
	s.changed(ctx, r.TeamID, r.WorkspaceID, r.ID)
	return err
}

// end ends what the kernel runs, and has the next run start another one. Without a state this server is stopping: runs go on.
func (k *kernel) end(why string, state State) {
	k.s.mu.Lock()
	if k.s.kernels[k.key] == k {
		delete(k.s.kernels, k.key)
	}
	k.s.mu.Unlock()
	k.mu.Lock()
	k.ended = true
	runs := append([]*run(nil), k.runs...)
	started := k.isReady
	if !started {
		k.isReady = true
		k.failure = clip(why, 500)
	}
	k.mu.Unlock()
	if state != "" {
		for _, r := range runs {
			_ = k.finish(r.ID, func(r *Run) { r.State, r.Cause = state, why })
		}
	}
	if !started {
		close(k.ready)
	}
	close(k.gone)
	k.sendMu.Lock()
	if k.in != nil {
		_ = k.in.Close()
		k.in = nil
	}
	k.sendMu.Unlock()
}

// attached returns the kernel that runs r, if this server reads it.
func (s *Service) attached(r *run) *kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernels[kernelKey{r.WorkspaceID, string(r.Language.kernel()), r.Kernel}]
}

// clip shortens a text, and replaces the one character that PostgreSQL refuses.
func clip(s string, n int) string {
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
