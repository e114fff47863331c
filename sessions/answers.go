package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/signals"
)

// Programs ask their terminal what it is, where its cursor stands and which colours it has, and wait for an answer. The server
// is the only one who gives it, from its own screen at the byte that asks: a session nobody watches gets its answer, one that
// ten people watch gets one, and output that is shown again is not answered again. Also a restart of the server neither answers
// twice nor forgets to: beside the log stands the offset up to which questions have been answered.
const (
	answeredFile = "answered"
	lateAnswer   = 64 << 10         // bytes of output after a question that an earlier server left open: then nobody waits any more
	maxAnswers   = 64 << 10         // bytes of answers that wait for a program that does not read them; beyond, there are no more
	pasteHold    = time.Second      // how long an answer waits for the end of a paste
	answerWait   = 10 * time.Second // for a program that does not read
)

// themeDark are the colours programs are told until somebody who sizes the terminal has others: those of the terminal in the dark
// theme of the UI.
var themeDark = screen.Colors{Foreground: 0xe6e9ee, Background: 0x0b0d10, Cursor: 0xe6e9ee, Palette: [16]screen.RGB{
	0x21262d, 0xff6b6b, 0x4cc38a, 0xf5b73d, 0x4ea1ff, 0xb18cff, 0x4fc1cc, 0xc9d1d9,
	0x8b95a1, 0xff8e8e, 0x7ee2a8, 0xffd27a, 0x6ea8fe, 0xcdb4ff, 0x86dbe3, 0xffffff,
}}

// nobody answers what an ended session asked.
const nobody = math.MaxInt64

// openAnswered returns the offset from which on questions are to be answered in a log that ends at end.
func (l *live) openAnswered(end int64) int64 {
	from := int64(0)
	if raw, err := readRegular(l.answeredPath(), 8); err == nil && len(raw) == 8 {
		from = int64(binary.BigEndian.Uint64(raw))
	}
	if from < 0 || from < end-lateAnswer {
		return end
	}
	return from
}

func (l *live) answeredPath() string { return filepath.Join(l.svc.dir(l.id), answeredFile) }

// noteAnswered remembers that questions before off are answered.
func (m *model) noteAnswered(off int64) {
	if off == nobody {
		return
	}
	f, err := os.OpenFile(m.l.answeredPath(), os.O_WRONLY|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return // a server that starts now might answer again, which is no reason to answer nothing
	}
	defer f.Close()
	_, _ = f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(off)), 0)
}

// answer takes what the screen answers to the program. It is called under mu.
func (m *model) answer(p []byte) {
	if len(m.queue)+len(p) <= maxAnswers {
		m.queue = append(m.queue, p...)
	}
}

// deliver has the answers typed that wait. It is called under mu.
func (m *model) deliver() {
	if len(m.queue) > 0 && !m.typing {
		m.typing = m.l.svc.run(m.typeAnswers)
	}
}

func (m *model) typeAnswers() {
	for {
		m.mu.Lock()
		p, upTo := m.queue, m.from
		m.queue = nil
		m.typing = len(p) > 0
		m.mu.Unlock()
		if len(p) == 0 {
			return
		}
		m.noteAnswered(upTo)
		ctx, cancel := context.WithTimeout(m.l.svc.hard, answerWait)
		if err := m.l.sendAnswer(ctx, p); err != nil {
			m.l.svc.cfg.Log.Debug("a program's question was not answered", "session_id", m.l.id, "error", err)
		}
		cancel()
	}
}

// sendAnswer types an answer of the terminal: between two things a person types, not in the middle of a paste.
func (l *live) sendAnswer(ctx context.Context, p []byte) error {
	for began := time.Now(); ; {
		if err := l.waitTurn(ctx); err != nil {
			return err
		}
		if !l.typer.pasting || time.Since(began) >= pasteHold {
			defer func() { l.typer.turn <- struct{}{} }()
			return l.sendNow(ctx, p)
		}
		l.typer.turn <- struct{}{}
		if !tasks.Sleep(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

var (
	pasteBegins = []byte("\x1b[200~")
	pasteEnds   = []byte("\x1b[201~")
)

// watchPaste notes whether what was typed leaves a paste open: long ones come in several pieces.
func (t *typer) watchPaste(p []byte) {
	if bytes.IndexByte(p, signals.Esc) < 0 {
		return
	}
	if begin, end := bytes.LastIndex(p, pasteBegins), bytes.LastIndex(p, pasteEnds); begin != end {
		t.pasting = begin > end
	}
}
