package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/toolrelay"
)

const (
	hostWithin = 20 * time.Second // for a session that is being reconnected
	writeIn    = 30 * time.Second
)

// Serve serves the terminal of a session until it or ctx ends: see guest.AgentInput.
//
// Any program of the sandbox may be at the other end: it has the session's token, and may type into its terminal as well. It can read the
// session's own conversation, send prompts, interrupt, and use the commands of Enter. It can answer no question, and nothing that it says is
// said in a person's name.
func (s *Service) Serve(ctx context.Context, of toolrelay.Session, conn net.Conn) error {
	host, err := s.hosted(ctx, of.ID)
	if err != nil {
		return err
	}
	if host.Row().Agent != Name {
		return fault.New(fault.Forbidden, "agent_other", "The session is one of another agent.")
	}
	use, err := s.terminals.open(of.ID, s.cfg.Now())
	if err != nil {
		return err
	}
	defer s.terminals.close(use)
	w := &lineWriter{conn: conn}
	in := bufio.NewScanner(conn)
	in.Buffer(make([]byte, 0, 16<<10), guest.MaxAgentInput)
	if !in.Scan() {
		return cmp.Or(in.Err(), io.EOF)
	}
	var first guest.AgentInput
	if json.Unmarshal(in.Bytes(), &first) != nil || first.Type != guest.AgentOpen {
		return errors.New("the terminal did not begin with open")
	}
	row := host.Row()
	t, err := s.Open(ctx, row, optionsOf(row.Argv))
	if err != nil {
		return errors.Join(err, w.write(guest.AgentOutput{Text: "\x1b[31m" + plain(fault.Words(err, "The conversation could not be opened.")) + "\x1b[0m", State: "not connected"}))
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		defer conn.Close()
		p := printer{w: w, parts: map[int]*printedPart{}, calls: map[string]bool{}}
		if err := s.Follow(ctx, t.ID, first.Version, p.print); err != nil && ctx.Err() == nil {
			s.cfg.Log.DebugContext(ctx, "a terminal of the agent ended", "thread_id", t.ID, "error", err)
		}
	})
	for in.Scan() {
		var m guest.AgentInput
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		switch m.Type {
		case guest.AgentPrompt:
			if err := use.inputs.Wait(ctx); err != nil {
				return err
			}
			words, err := "", error(errLongPrompt)
			if len(m.Text) <= guest.MaxAgentPrompt {
				words, err = s.Enter(ctx, t.ID, Prompt{Text: m.Text})
			}
			if err != nil {
				words = "\x1b[31m" + plain(fault.Words(err, "The prompt could not be sent. Try again.")) + "\x1b[0m"
			}
			if err := w.write(guest.AgentOutput{Text: words}); err != nil {
				return err
			}
		case guest.AgentInterrupt:
			s.Interrupt(t.ID)
		}
	}
	return in.Err()
}

var errLongPrompt = fault.New(fault.Invalid, "invalid_prompt", "A prompt from the terminal has at most %d KiB. Put the text into a file and name that.", guest.MaxAgentPrompt>>10)

// hosted waits for a session that is being reconnected.
func (s *Service) hosted(ctx context.Context, sessionID string) (Host, error) {
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	for {
		if h, ok := s.cfg.Sessions.Hosted(sessionID); ok {
			return h, nil
		}
		if !tasks.Sleep(ctx, 50*time.Millisecond) {
			return nil, fault.New(fault.Conflict, "session_not_running", "The session has ended, or is not connected yet.")
		}
	}
}

// optionsOf reads the options of a session: --model NAME, --mode MODE, --max-cost USD, --effort EFFORT and --api API.
func optionsOf(argv []string) (o Options) {
	for i, a := range argv {
		name, value, joined := strings.Cut(a, "=")
		if !joined && i+1 < len(argv) {
			value = argv[i+1]
		}
		switch name {
		case "--model":
			o.Model = value
		case "--max-cost":
			if usd, err := strconv.ParseFloat(value, 64); err == nil && usd > 0 && usd < 1e9 {
				o.Cost = int64(usd * 1e9)
			}
		case "--api":
			o.API = value
		case "--effort":
			if slices.Contains([]string{"low", "medium", "high"}, value) {
				o.Effort = value
			}
		case "--mode":
			if slices.Contains(Modes, Mode(value)) {
				o.Mode = Mode(value)
			}
		}
	}
	return o
}

// lineWriter writes objects, one a line.
type lineWriter struct {
	mu   sync.Mutex
	conn net.Conn
}

func (w *lineWriter) write(out guest.AgentOutput) error {
	if out == (guest.AgentOutput{}) {
		return nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	w.mu.Lock() // a write takes at most as long as its deadline
	defer w.mu.Unlock()
	_ = w.conn.SetWriteDeadline(time.Now().Add(writeIn))
	_, err = w.conn.Write(append(b, '\n'))
	return err
}

// printer prints a thread as text.
type printer struct {
	w       *lineWriter
	calls   map[string]bool      // whose end was printed
	message string               // that is being written
	parts   map[int]*printedPart // of it
}

// printedPart is a part of a message that is being written.
type printedPart struct {
	printed int    // bytes: whole lines
	rest    []byte // what came after them
}

// delta takes the next piece of a message and returns the lines that are complete with it.
func (p *printer) delta(d Delta) string {
	if d.Kind != providers.Text {
		return ""
	}
	if p.message != d.MessageID {
		p.message = d.MessageID
		clear(p.parts)
	}
	var b strings.Builder
	part := p.parts[d.Part]
	if part == nil {
		part = &printedPart{}
		p.parts[d.Part] = part
		for i := range d.Part { // those before it are complete
			if o := p.parts[i]; o != nil && len(o.rest) > 0 {
				b.Write(append(o.rest, '\n'))
				o.printed, o.rest = o.printed+len(o.rest), nil
			}
		}
	}
	text, at := d.Text, d.Offset-part.printed
	if at < 0 { // it begins again: what was printed stays
		text, at = text[min(-at, len(text)):], 0
	}
	from := min(at, len(part.rest))
	part.rest = append(part.rest[:from], text...)
	if whole := from + strings.LastIndexByte(text, '\n') + 1; whole > from {
		b.Write(part.rest[:whole])
		part.printed, part.rest = part.printed+whole, append([]byte(nil), part.rest[whole:]...)
	}
	return plain(b.String())
}

func (p *printer) print(u Update) error {
	if u.Delta != nil {
		return p.w.write(guest.AgentOutput{Text: p.delta(*u.Delta)})
	}
	var b strings.Builder
	undone := map[string]bool{}
	for _, m := range u.Messages {
		p.entry(&b, m)
		undone[m.ID] = m.State == Undone
	}
	for _, c := range u.Calls {
		if !undone[c.MessageID] && c.State.Ended() && !p.calls[c.ID] {
			p.calls[c.ID] = true
			p.call(&b, c)
		}
	}
	out := guest.AgentOutput{Text: b.String(), Version: u.Thread.Version, State: stateLine(u.Thread)}
	for len(out.Text) > guest.MaxAgentLine/4 {
		cut := strings.LastIndexByte(out.Text[:guest.MaxAgentLine/4], '\n') + 1
		if cut == 0 {
			cut = guest.MaxAgentLine / 4
			for cut > 0 && !utf8.RuneStart(out.Text[cut]) {
				cut--
			}
		}
		if err := p.w.write(guest.AgentOutput{Text: out.Text[:cut]}); err != nil {
			return err
		}
		out.Text = out.Text[cut:]
	}
	return p.w.write(out)
}

func (p *printer) entry(b *strings.Builder, m Message) {
	switch {
	case m.State == Streaming:
	case m.State == Undone && m.Role == User:
		fmt.Fprintf(b, "\x1b[2m── undone: %s ──\x1b[0m\n", safetext.Cut(safetext.Line(plain(textOf(m.Parts))), 60))
	case m.State == Undone:
	case m.Role == User:
		fmt.Fprintf(b, "\n\x1b[1;36m› %s\x1b[0m\n", strings.TrimRight(plain(promptOf(&m)), "\n"))
	case m.State == Discarded:
		fmt.Fprintf(b, "\x1b[2m── %s ──\x1b[0m\n", plain(m.Note))
	case m.Role == Clear:
		b.WriteString("\x1b[2m── the model is sent nothing from before this line ──\x1b[0m\n")
	case m.Role == Summary:
		b.WriteString("\x1b[2m── the conversation so far was summarized ──\x1b[0m\n")
	default:
		for i, part := range m.Parts {
			if part.Kind != providers.Text {
				continue
			}
			text := part.Text
			if o := p.parts[i]; p.message == m.ID && o != nil {
				text = text[min(o.printed, len(text)):]
			}
			if text = strings.TrimRight(plain(text), "\n"); text != "" {
				b.WriteString(text + "\n")
			}
		}
	}
}

const shownOutput = 5 // lines of a result

func (p *printer) call(b *strings.Builder, c Call) {
	colour := "32"
	if c.State != CallDone {
		colour = "31"
	}
	fmt.Fprintf(b, "\x1b[%sm●\x1b[0m %s \x1b[2m%s\x1b[0m\n", colour, plain(c.Tool), plain(c.Title()))
	lines := strings.Split(strings.TrimSpace(plain(textOf(c.Content))), "\n")
	for i, l := range lines {
		if i == shownOutput {
			fmt.Fprintf(b, "\x1b[2m  … %d more lines\x1b[0m\n", len(lines)-i)
			break
		}
		if l != "" {
			fmt.Fprintf(b, "\x1b[2m  %s\x1b[0m\n", l)
		}
	}
}

func stateLine(t Thread) string {
	mode := ""
	if t.Mode != Build {
		mode = fmt.Sprintf(" (%s mode)", t.Mode)
	}
	switch t.State {
	case Working:
		return "working … Esc interrupts" + mode
	case Waiting:
		return "waits for an answer in Parawork: " + safetext.Line(t.Reason) // the title of a plan is the model's
	case Failed:
		return plain(t.Reason)
	}
	return "write a prompt" + mode
}

// plain removes control characters from a text except for line feeds; a tab becomes spaces.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' && r != '\n', r == 0x7f, r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, text)
}
