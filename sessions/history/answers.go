package history

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/sessions/screen"
)

// Programs ask their terminal what it is, where its cursor is and which colours it has, and wait for an answer. Only the server
// answers, from its own screen at the byte that asks: a session without viewers gets its answer, one with ten viewers gets one,
// and replayed output is not answered again. A restart of the server neither repeats nor loses an answer: a file next to the log
// stores the offset up to which questions have been answered.
const (
	answeredFile = "answered"
	lateAnswer   = 64 << 10         // bytes of output after a question that an earlier server left open: then no program waits any more
	maxAnswers   = 64 << 10         // bytes of answers that wait for a program that does not read them; further answers are dropped
	answerWait   = 10 * time.Second // how long to wait for a program that does not read
)

// darkTheme are the colours reported to programs until the viewer who determines the size has others: those of the terminal in
// the dark theme of the UI.
var darkTheme = screen.Colors{Foreground: 0xe6e9ee, Background: 0x0b0d10, Cursor: 0xe6e9ee, Palette: [16]screen.RGB{
	0x21262d, 0xff6b6b, 0x4cc38a, 0xf5b73d, 0x4ea1ff, 0xb18cff, 0x4fc1cc, 0xc9d1d9,
	0x8b95a1, 0xff8e8e, 0x7ee2a8, 0xffd27a, 0x6ea8fe, 0xcdb4ff, 0x86dbe3, 0xffffff,
}}

// lightTheme are those of a terminal in the light theme of the UI.
var lightTheme = screen.Colors{Foreground: 0x15181c, Background: 0xf6f7f9, Cursor: 0x15181c, Palette: [16]screen.RGB{
	0x15181c, 0xc0262d, 0x13703f, 0x8a5a00, 0x0b62d6, 0x6b3fc9, 0x0a6470, 0x5f6975,
	0x5f6975, 0xa81c23, 0x0e5a33, 0x734b00, 0x1d4ed8, 0x5a33ad, 0x08525c, 0x15181c,
}}

// Theme returns the colours of a terminal that is light or dark in the UI. The caller must not change them.
func Theme(light bool) *screen.Colors {
	if light {
		return &lightTheme
	}
	return &darkTheme
}

// nobody marks an ended session, whose questions get no answer.
const nobody = math.MaxInt64

// openAnswered returns the offset from which questions are to be answered in a log that ends at end.
func (r *Recording) openAnswered(end int64) int64 {
	from := int64(0)
	if raw, err := readRegular(r.answeredPath(), 8); err == nil && len(raw) == 8 {
		from = int64(binary.BigEndian.Uint64(raw))
	}
	if from < 0 || from < end-lateAnswer {
		return end
	}
	return from
}

func (r *Recording) answeredPath() string { return filepath.Join(r.all.dir(r.id), answeredFile) }

// noteAnswered stores that questions before off are answered.
func (m *model) noteAnswered(off int64) {
	if off == nobody {
		return
	}
	f, err := os.OpenFile(m.r.answeredPath(), os.O_WRONLY|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return // a server that starts now might answer again, which is no reason not to answer
	}
	defer f.Close()
	_, _ = f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(off)), 0)
}

// answer takes the screen's answer to the program. The caller holds mu.
func (m *model) answer(p []byte) {
	if len(m.queue)+len(p) <= maxAnswers {
		m.queue = append(m.queue, p...)
	}
}

// deliver has the waiting answers typed. The caller holds mu.
func (m *model) deliver() {
	if len(m.queue) > 0 && !m.typing {
		m.typing = m.r.all.cfg.Tasks.Go(m.typeAnswers)
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
		ctx, cancel := context.WithTimeout(m.r.all.cfg.Context, answerWait)
		if err := m.r.host.Answer(ctx, p); err != nil {
			m.r.all.cfg.Log.Debug("a program's terminal query was not answered", "session_id", m.r.id, "error", err)
		}
		cancel()
	}
}
