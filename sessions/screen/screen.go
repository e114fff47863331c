package screen

import (
	"cmp"
	"time"
)

// Bounds of a screen's size, and the defaults of Config.
const (
	MinCols, MinRows = 2, 1
	MaxCols, MaxRows = 1000, 1000

	DefaultScrollback       = 1000
	DefaultViewerScrollback = 10_000

	maxScrollback = 100_000
	maxTitle      = 1024 // bytes
	maxTitles     = 10   // saved titles
	syncFor       = time.Second
)

// Config configures a Screen.
type Config struct {
	Cols, Rows int // clamped to the bounds above
	Scrollback int // lines kept above the screen; 0: DefaultScrollback, negative: none

	// Archive retains the scrollback when the program erases it.
	Archive bool

	// ViewerScrollback is how many lines viewers' terminals keep. xterm.js restores a saved cursor by the line it was saved on,
	// even when that has scrolled up, until its scrollback is full. 0: DefaultViewerScrollback.
	ViewerScrollback int

	// Answer is called with the terminal's answers to the program, while answering is on. It must not block nor call the Screen.
	// The Screen owns the bytes: they are valid only during the call. nil: no answers.
	Answer func([]byte)
	// Event is called with control messages of programs. It must not block nor call the Screen. May be nil.
	Event func(Event)

	Name   string           // the answer to XTVERSION; "" is the viewers' terminal
	Colors Colors           // the answers to colour queries until a program sets others
	Now    func() time.Time // nil: time.Now; only for synchronized output
}

// Screen is the model of one terminal. It is not safe for concurrent use: its owner locks.
type Screen struct {
	cfg        Config
	cols, rows int
	keep       int // lines viewers retain

	main, alt buffer
	buf       *buffer // the one shown
	hist      history

	styles   styles
	clusters clusters
	links    links

	cur     style // style of the next character
	changed bool  // cur changed since pen and blank were derived from it
	pen     cell  // cur as part of a cell
	blank   cell  // an erased cell

	sets    [4]uint8 // G0 to G3
	level   uint8    // which of them is in use
	charset uint8    // the set in use

	joinKind uint8 // kind of the last printed character, none after anything else
	joinCols uint8 // columns of its grapheme

	parser
	modes    modes
	colors   colorChanges
	title    string
	titles   []string // saved by the program
	progress string   // the last OSC 9;4 with something to show
	answers  []byte
	answer   bool
}

// New returns an empty screen. Answers are off until SetAnswering.
func New(cfg Config) *Screen {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Name = cmp.Or(cfg.Name, "xterm.js(6.0.0)")
	s := &Screen{cfg: cfg, keep: orDefault(cfg.ViewerScrollback, DefaultViewerScrollback)}
	s.cols, s.rows = clampSize(cfg.Cols, cfg.Rows)
	s.hist.max = min(orDefault(cfg.Scrollback, DefaultScrollback), maxScrollback)
	s.styles = newStyles()
	s.clusters.limit, s.links.limit = firstClusters, firstLinks
	s.modes = defaultModes()
	s.resetScreens()
	return s
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return max(n, 0)
}

func clampSize(cols, rows int) (int, int) {
	return min(max(cols, MinCols), MaxCols), min(max(rows, MinRows), MaxRows)
}

// resetScreens makes both screens empty, and the scrollback.
func (s *Screen) resetScreens() {
	if !s.cfg.Archive {
		s.hist.clear()
	}
	s.main.reset(s.cols, s.rows)
	s.main.hasScrollback = true
	if len(s.main.lines) == 0 {
		s.main.allocate(s.cols, s.rows)
	}
	s.alt.reset(s.cols, s.rows)
	s.buf = &s.main
	s.cur = style{}
	s.changed, s.pen, s.blank = false, 0, 0
	s.joinKind = none
}

// Size returns the screen's size in cells.
func (s *Screen) Size() (cols, rows int) { return s.cols, s.rows }

// Title returns the title the program set last, at most a kilobyte. It is the program's text: untrusted.
func (s *Screen) Title() string { return s.title }

// AltScreen reports whether the alternate screen is shown.
func (s *Screen) AltScreen() bool { return s.buf == &s.alt }

// Cursor returns where the cursor is, from 0, and whether it is shown.
func (s *Screen) Cursor() (x, y int, shown bool) {
	return min(s.buf.x, s.cols-1), s.buf.y, !s.modes.hidden
}

// Scrollback returns how many lines are retained above the screen.
func (s *Screen) Scrollback() int { return s.hist.len() }

// SetAnswering sets whether queries in output written from now on get an answer. Turn it on only for output that is new and that
// nobody else answers; never for replayed output.
func (s *Screen) SetAnswering(on bool) { s.answer = on && s.cfg.Answer != nil }

// refresh derives pen and blank from cur.
func (s *Screen) refresh() {
	s.changed = false
	s.pen = s.styled(s.cur.normal())
	s.blank = s.styled(style{bg: s.cur.bg & colorMask})
}

// styled returns a style as part of a cell.
func (s *Screen) styled(st style) cell {
	if st == (style{}) {
		return 0
	}
	if s.styles.due(s.styles.live()) {
		s.sweep()
	}
	return cell(s.styles.number(st)) << styleShift
}

// sweep frees the styles, clusters and links that no cell uses any more.
func (s *Screen) sweep() {
	s.styles.used = make([]bool, len(s.styles.list))
	s.clusters.used = make([]bool, len(s.clusters.text))
	s.links.used = make([]bool, len(s.links.list))
	style := func(n uint32) { s.styles.used[n] = true }
	cluster := func(n uint32) { s.clusters.used[n] = true }
	for _, b := range []*buffer{&s.main, &s.alt} {
		for i := range b.lines {
			l := &b.lines[i]
			for _, c := range l.cells[:l.used] {
				style(c.style())
				if c&combined != 0 {
					cluster(uint32(c & codeMask))
				}
			}
		}
	}
	for i := range s.hist.len() {
		marks(s.hist.at(i), style, cluster)
	}
	style(s.pen.style())
	style(s.blank.style())
	for n, used := range s.styles.used {
		if l := s.styles.list[n].link; used && l != 0 {
			s.links.used[l] = true
		}
	}
	if s.cur.link != 0 {
		s.links.used[s.cur.link] = true
	}
	s.styles.sweep()
	s.clusters.sweep()
	s.links.sweep()
}
