// Package kernel runs code for agents and people in an interpreter that keeps its variables: Python, JavaScript or a shell. It is the
// program `parawork-guest kernel`, one process beside each interpreter: it passes requests on, merges what the interpreter prints and
// displays into one stream of bounded messages, interrupts it, and ends one that does not react or uses too much memory. It goes on
// while the server restarts; the guest keeps what it says.
//
// One goroutine does all of it in a loop over poll(2); a second one waits for the interpreter's end and wakes the loop.
package kernel

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/usage"
)

const (
	again      = time.Second            // after which it is interrupted again
	memoryPoll = 200 * time.Millisecond // how often the memory is measured while code runs
	maxPending = 8 * guest.MaxCode      // bytes of a request with its quotes
	drainMost  = 1 << 20                // bytes of printed text that are read before a message is passed on
)

// Config is what a kernel needs.
type Config struct {
	Language guest.KernelLanguage
	In       *os.File // requests
	Out      io.Writer
	Memory   int64         // bytes that the interpreter and what it started may use together; 0 = no limit
	Patience time.Duration // how long an interrupted interpreter may take to end the run; default 5 s
	Now      func() time.Time
}

// Run starts the interpreter and serves requests until In ends or the interpreter does. It returns the exit code of the program.
func Run(cfg Config) int {
	runtime.LockOSThread() // the interpreter ends with the thread that started it
	defer runtime.UnlockOSThread()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Patience = cmp.Or(cfg.Patience, 5*time.Second)
	k := &kernel{cfg: cfg, scratch: make([]byte, 64<<10), fragments: map[guest.KernelMessageType][]byte{}, host: bufio.NewWriterSize(cfg.Out, 64<<10)}
	defer k.host.Flush()
	l, err := languageOf(cfg.Language)
	if err == nil {
		err = k.start(l)
	}
	if err != nil {
		k.send(guest.KernelMessage{Type: guest.KernelFailed, Text: err.Error()})
		return 127
	}
	defer k.end()
	if err := k.loop(); err != nil {
		k.send(guest.KernelMessage{Type: guest.KernelFailed, Text: err.Error()})
		return 1
	}
	return 0
}

type kernel struct {
	cfg     Config
	host    *bufio.Writer // messages; those of one turn of the loop go together, and the host is woken once
	lang    language
	cmd     *exec.Cmd
	ask     *os.File    // to the interpreter
	answers *os.File    // its messages
	out     [2]*os.File // its standard output and error output
	ended   *os.File    // becomes readable when the interpreter has ended
	exit    chan error  // its end

	ready     bool
	requests  []byte // of In, not yet complete
	messages  []byte // of the interpreter, not yet complete
	skipping  bool   // the rest of a message that is too long
	queue     []guest.KernelRequest
	scratch   []byte // for what is printed while a message is read
	cell      int
	run       *run
	fragments map[guest.KernelMessageType][]byte // incomplete characters at the end of printed text
	over      bool                               // In has ended
}

// run is the code that runs now.
type run struct {
	guest.KernelRequest
	began       time.Time
	begun       bool      // the interpreter can be interrupted
	interrupted time.Time // when that was first asked for; zero: not
	signalled   time.Time // when the interpreter was last interrupted
	state       guest.KernelState
	cause       string
	failed      bool
	printed     int64
	leftOut     int64
	tail        []byte
	tailOf      guest.KernelMessageType
	results     int
	measured    time.Time
}

// start starts the interpreter as the leader of a session of its own.
func (k *kernel) start(l language) error {
	k.lang = l
	path, err := l.find()
	if err != nil {
		return err
	}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	pipe := func(toThem bool) (ours, other *os.File) {
		if err != nil {
			return nil, nil
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil, nil
		}
		if toThem {
			theirs = append(theirs, r)
			return w, r
		}
		theirs = append(theirs, w)
		return r, w
	}
	ask, askEnd := pipe(true)
	answers, answersEnd := pipe(false)
	stdout, stdoutEnd := pipe(false)
	stderr, stderrEnd := pipe(false)
	source, sourceEnd := pipe(true)
	ended, endedEnd := pipe(false)
	null, nullErr := os.Open(os.DevNull)
	if err = errors.Join(err, nullErr); err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	theirs = append(theirs, null)
	k.ask, k.answers, k.out, k.ended = ask, answers, [2]*os.File{stdout, stderr}, ended
	stdin, third := null, askEnd
	if l.stdin {
		stdin, third = askEnd, null
	}
	k.cmd = &exec.Cmd{
		Path: path, Args: append([]string{path}, l.args...), Env: append(os.Environ(), l.env...), Stdin: stdin, Stdout: stdoutEnd, Stderr: stderrEnd,
		ExtraFiles: []*os.File{third, answersEnd, sourceEnd}, SysProcAttr: ownSession(),
	}
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", path, err)
	}
	preferToKill(k.cmd.Process.Pid)
	k.exit = make(chan error, 1)
	notify := endedEnd
	theirs = remove(theirs, endedEnd)
	go func() { // ends with the interpreter
		k.exit <- k.cmd.Wait()
		_ = notify.Close()
	}()
	_, err = source.WriteString(l.source) // shorter than a pipe holds, so that it does not wait
	_ = source.Close()
	if err != nil {
		k.kill()
		return fmt.Errorf("starting %s: %w", path, err)
	}
	if l.stdin {
		err = k.tell([]byte("PROMPT_COMMAND=; set +H; " + `printf '{"type":"ready","version":"bash %s"}\n' "$BASH_VERSION" >&4` + "\n"))
	}
	return err
}

func remove(list []*os.File, f *os.File) []*os.File {
	var out []*os.File
	for _, o := range list {
		if o != f {
			out = append(out, o)
		}
	}
	return out
}

// tell writes to the interpreter.
func (k *kernel) tell(p []byte) error {
	if _, err := k.ask.Write(p); err != nil {
		return fmt.Errorf("the interpreter takes no more requests: %w", err)
	}
	return nil
}

// loop serves until In or the interpreter ends.
func (k *kernel) loop() error {
	buf := make([]byte, 64<<10)
	for {
		_ = k.host.Flush() // an error means that the guest is ending
		fds := []unix.PollFd{{Fd: int32(k.answers.Fd()), Events: unix.POLLIN}, {Fd: int32(k.ended.Fd()), Events: unix.POLLIN}}
		for _, f := range k.out {
			fds = append(fds, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLIN})
		}
		if !k.over {
			fds = append(fds, unix.PollFd{Fd: int32(k.cfg.In.Fd()), Events: unix.POLLIN})
		}
		if _, err := unix.Poll(fds, k.wait()); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for the interpreter: %w", err)
		}
		k.print(buf, drainMost)
		if fds[0].Revents != 0 {
			k.hear(buf)
		}
		if fds[1].Revents != 0 {
			return k.died(buf)
		}
		if len(fds) > 4 && fds[4].Revents != 0 {
			k.read(buf)
		}
		if k.over && k.run == nil && len(k.queue) == 0 {
			return nil
		}
		k.next()
		k.watch()
	}
}

// wait is how long the loop may sleep, in ms.
func (k *kernel) wait() int {
	if k.run == nil {
		return -1
	}
	until := time.Duration(-1)
	sooner := func(d time.Duration) {
		if d = max(d, 0); until < 0 || d < until {
			until = d
		}
	}
	now := k.cfg.Now()
	switch {
	case !k.run.interrupted.IsZero():
		sooner(k.run.interrupted.Add(k.cfg.Patience).Sub(now))
		if k.run.begun {
			sooner(k.run.signalled.Add(again).Sub(now))
		}
	case k.run.TimeoutMs > 0:
		sooner(k.run.began.Add(time.Duration(k.run.TimeoutMs) * time.Millisecond).Sub(now))
	}
	if k.cfg.Memory > 0 {
		sooner(k.run.measured.Add(memoryPoll).Sub(now))
	}
	if until < 0 {
		return -1
	}
	return int(until.Milliseconds()) + 1
}

// read reads requests.
func (k *kernel) read(buf []byte) {
	n, err := unix.Read(int(k.cfg.In.Fd()), buf)
	if n <= 0 {
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			return
		}
		k.over = true
		k.interrupt(guest.RunInterrupted, "")
		return
	}
	k.requests = append(k.requests, buf[:n]...)
	for {
		i := bytes.IndexByte(k.requests, '\n')
		if i < 0 {
			if len(k.requests) > maxPending { // the host checks: this is not its request
				k.over = true
			}
			return
		}
		var r guest.KernelRequest
		if err := json.Unmarshal(k.requests[:i], &r); err == nil {
			k.request(r)
		}
		k.requests = k.requests[i+1:]
	}
}

func (k *kernel) request(r guest.KernelRequest) {
	if !r.Interrupt {
		k.queue = append(k.queue, r)
		k.next()
		return
	}
	if k.run != nil && k.run.ID == r.ID {
		k.interrupt(guest.RunInterrupted, "")
		return
	}
	for i, q := range k.queue {
		if q.ID == r.ID {
			k.queue = append(k.queue[:i], k.queue[i+1:]...)
			break
		}
	}
	k.send(guest.KernelMessage{ID: r.ID, Type: guest.KernelDone, State: guest.RunInterrupted}) // also when it never came here
}

// next begins the next run when none is under way.
func (k *kernel) next() {
	if !k.ready || k.run != nil || len(k.queue) == 0 {
		return
	}
	r := k.queue[0]
	k.queue = k.queue[1:]
	k.cell++
	now := k.cfg.Now()
	k.run = &run{KernelRequest: r, began: now, measured: now, begun: k.lang.always}
	k.send(guest.KernelMessage{ID: r.ID, Type: guest.KernelStarted})
	if err := k.tell(k.lang.request(r, k.cell)); err != nil {
		k.run.cause = err.Error()
		k.kill()
	}
}

// interrupt interrupts the present run; state says how it then ends.
func (k *kernel) interrupt(state guest.KernelState, cause string) {
	if k.run == nil || !k.run.interrupted.IsZero() {
		return
	}
	k.run.interrupted, k.run.state, k.run.cause = k.cfg.Now(), state, cause
	k.signal()
}

// signal interrupts the interpreter and the programs it runs, once the code has begun.
func (k *kernel) signal() {
	if !k.run.begun {
		return
	}
	k.run.signalled = k.cfg.Now()
	_ = syscall.Kill(-k.cmd.Process.Pid, syscall.SIGINT)
	if k.lang.interrupt != nil {
		_ = k.tell(k.lang.interrupt(k.run.ID))
	}
}

// watch acts on limits that the present run has reached.
func (k *kernel) watch() {
	if k.run == nil {
		return
	}
	now := k.cfg.Now()
	switch {
	case !k.run.interrupted.IsZero() && now.Sub(k.run.interrupted) < k.cfg.Patience:
		if k.run.begun && now.Sub(k.run.signalled) >= again { // code may have caught it, or started a program meanwhile
			k.signal()
		}
	case !k.run.interrupted.IsZero():
		k.run.cause = fmt.Sprintf("the code did not react to the interruption within %v", k.cfg.Patience)
		k.kill()
		k.run.interrupted = now // not again at once
	case k.run.interrupted.IsZero() && k.run.TimeoutMs > 0 && now.Sub(k.run.began).Milliseconds() >= k.run.TimeoutMs:
		k.interrupt(guest.RunTimedOut, "")
	}
	if k.cfg.Memory > 0 && now.Sub(k.run.measured) >= memoryPoll {
		k.run.measured = now
		if used := usage.Memory(k.cmd.Process.Pid); used > k.cfg.Memory {
			k.run.cause = fmt.Sprintf("the code used %d MB of memory; a kernel may use %d MB", used>>20, k.cfg.Memory>>20)
			k.kill()
		}
	}
}

// kill ends the interpreter and what it started in its session.
func (k *kernel) kill() {
	_ = syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL)
	_ = k.cmd.Process.Kill()
}

// end ends the interpreter and waits for it.
func (k *kernel) end() {
	k.kill()
	<-k.exit
	k.exit <- nil
}

// died reports the interpreter's end.
func (k *kernel) died(buf []byte) error {
	k.print(buf, drainMost)
	k.hear(buf)
	err := <-k.exit
	k.exit <- err
	_ = syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	how := "the interpreter ended"
	if state := k.cmd.ProcessState; state != nil {
		how = fmt.Sprintf("the interpreter ended (%s)", state)
	}
	if !k.ready {
		return fmt.Errorf("%s before it was ready: %s", how, bytes.TrimSpace(k.tailText()))
	}
	if k.run != nil {
		if k.run.cause == "" {
			k.run.cause = how
		}
		if k.run.state != guest.RunTimedOut {
			k.run.state = guest.RunDied
		}
		k.done(guest.KernelMessage{})
	}
	for _, r := range k.queue {
		k.send(guest.KernelMessage{ID: r.ID, Type: guest.KernelDone, State: guest.RunDied, Cause: how})
	}
	k.queue = nil
	return nil
}

// tailText is what an interpreter printed that never got ready.
func (k *kernel) tailText() []byte { return k.fragments[guest.KernelFailed] }

// print passes on what the interpreter has printed until now, at most so many bytes of each output.
func (k *kernel) print(buf []byte, most int) {
	for i, f := range k.out {
		kind := guest.KernelStdout
		if i == 1 {
			kind = guest.KernelStderr
		}
		for n := 0; n < most; {
			if !readable(f) {
				break
			}
			m, err := unix.Read(int(f.Fd()), buf)
			if m <= 0 {
				if !errors.Is(err, unix.EINTR) {
					break
				}
				continue
			}
			n += m
			k.printed(kind, buf[:m])
		}
	}
}

// printed passes on printed text within the limits of a run. Text of no run belongs to programs that an earlier one left running.
func (k *kernel) printed(kind guest.KernelMessageType, p []byte) {
	if !k.ready {
		k.fragments[guest.KernelFailed] = last(append(k.fragments[guest.KernelFailed], p...), 4<<10)
		return
	}
	r := k.run
	if r == nil || k.lang.stdin && !r.interrupted.IsZero() && string(p) == "\n" { // a shell ends the interrupted line
		return
	}
	if room := guest.MaxKernelPrinted - r.printed; int64(len(p)) > room {
		r.leftOut += int64(len(p)) - room
		r.tail, r.tailOf = last(append(r.tail, p[room:]...), guest.KernelTail), kind
		p = p[:room]
	}
	r.printed += int64(len(p))
	k.text(kind, p)
}

// text sends printed text in whole characters.
func (k *kernel) text(kind guest.KernelMessageType, p []byte) {
	p = append(k.fragments[kind], p...)
	whole := len(p)
	for back := 1; back <= min(3, len(p)); back++ {
		if b := p[len(p)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-back:]) {
				whole = len(p) - back
			}
			break
		}
	}
	k.fragments[kind] = bytes.Clone(p[whole:])
	if whole > 0 {
		k.send(guest.KernelMessage{ID: k.run.ID, Type: kind, Text: string(bytes.ToValidUTF8(p[:whole], []byte("\uFFFD")))})
	}
}

func last(p []byte, n int) []byte {
	if len(p) > n {
		return append(p[:0], p[len(p)-n:]...)
	}
	return p
}

// hear passes on the interpreter's messages.
func (k *kernel) hear(buf []byte) {
	for readable(k.answers) {
		n, err := unix.Read(int(k.answers.Fd()), buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return
		}
		p := buf[:n]
		for {
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				if k.skipping = k.skipping || len(k.messages)+len(p) > guest.MaxKernelMessage; k.skipping {
					k.messages = nil
				} else {
					k.messages = append(k.messages, p...)
				}
				break
			}
			if !k.skipping {
				k.message(append(k.messages, p[:i]...))
			}
			k.messages, k.skipping, p = k.messages[:0], false, p[i+1:]
		}
	}
}

// message passes on one message. What the code printed before has been passed on already.
func (k *kernel) message(p []byte) {
	var m guest.KernelMessage
	if json.Unmarshal(p, &m) != nil {
		return
	}
	if m.Type == guest.KernelReady && !k.ready {
		k.ready = true
		k.send(guest.KernelMessage{Type: guest.KernelReady, Version: m.Version})
		return
	}
	if k.run == nil || m.ID != k.run.ID {
		return
	}
	if m.Type == begun {
		if k.run.begun = true; !k.run.interrupted.IsZero() {
			k.signal()
		}
		return
	}
	k.print(k.scratch, drainMost)
	switch m.Type {
	case guest.KernelResult:
		if k.run.results++; k.run.results <= guest.MaxKernelResults {
			k.send(guest.KernelMessage{ID: m.ID, Type: m.Type, Data: m.Data, Main: m.Main})
		}
	case guest.KernelError:
		if k.run.interrupted.IsZero() && !k.run.failed {
			k.send(guest.KernelMessage{ID: m.ID, Type: m.Type, Error: m.Error})
		}
		k.run.failed = true
	case guest.KernelDone:
		if m.Exit != nil && *m.Exit != 0 {
			k.run.failed = true
		}
		k.done(m)
	}
}

// done ends the present run.
func (k *kernel) done(m guest.KernelMessage) {
	r := k.run
	if r.leftOut > 0 {
		r.leftOut -= int64(len(r.tail))
		k.text(r.tailOf, fmt.Appendf(nil, "\n... %d bytes left out ...\n%s", r.leftOut, r.tail))
	}
	for kind, rest := range k.fragments {
		if len(rest) > 0 && (kind == guest.KernelStdout || kind == guest.KernelStderr) {
			k.send(guest.KernelMessage{ID: r.ID, Type: kind, Text: "\uFFFD"})
		}
		delete(k.fragments, kind)
	}
	if r.state == "" {
		r.state = guest.RunOK
		if r.failed {
			r.state = guest.RunFailed
		}
	}
	k.run = nil
	k.send(guest.KernelMessage{ID: r.ID, Type: guest.KernelDone, State: r.state, Exit: m.Exit, Cause: r.cause, LeftOut: r.leftOut,
		TookMs: k.cfg.Now().Sub(r.began).Milliseconds()})
}

// send writes a message to the host by the next turn of the loop. The guest holds it until the host reads; an error means that the guest is
// ending.
func (k *kernel) send(m guest.KernelMessage) {
	_, _ = k.host.Write(line(m))
}

// readable reports whether there is something to read now.
func readable(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
}
