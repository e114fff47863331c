package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	pages "github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/tools/browser/cdp"
)

// frameHead is what the live view of a browser sends before a picture, in bytes.
const frameHead = 10

// glass is a page that shows the colour it receives, and one that moves all the time.
type glass struct {
	*httptest.Server
	told sync.Map // channels of colours, by the number of the page
	n    int
}

// page is the address of a page that receives its colour, and the channel for it.
func (g *glass) page() (address string, colours chan string) {
	g.n++
	colours = make(chan string)
	g.told.Store(strconv.Itoa(g.n), colours)
	return fmt.Sprintf("%s/still?%d", g.URL, g.n), colours
}

func newGlass() *glass {
	g := &glass{}
	mux := http.NewServeMux()
	mux.HandleFunc("/still", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Still</title><body style="margin:0"><script>new EventSource("/go" + location.search).onmessage = e => { document.body.style.background = e.data }</script>`)
	})
	mux.HandleFunc("/moves", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Moves</title><body style="font:14px sans-serif"><div id=bar style="position:absolute;width:200px;height:200px;background:teal"></div>`,
			strings.Repeat("<p>Pages that people build have some text, which a picture of them has to show.</p>", 20),
			`<script>let n = 0; (function step() { bar.style.left = (n += 5) % 1000 + "px"; requestAnimationFrame(step) })()</script>`)
	})
	mux.HandleFunc("/go", func(w http.ResponseWriter, r *http.Request) {
		told, _ := g.told.Load(r.URL.RawQuery)
		colours, _ := told.(chan string)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case c := <-colours:
				fmt.Fprintf(w, "data: %s\n\n", c)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	g.Server = httptest.NewServer(mux)
	return g
}

// sighting is a picture and when it came.
type sighting struct {
	at   time.Time
	jpeg []byte
}

// latency measures from the moment a colour is sent to the page until a picture that has it has come.
func latency(n int, colours chan<- string, seen <-chan sighting) (took []float64, err error) {
	for i := range n {
		time.Sleep(time.Duration(100+rand.IntN(100)) * time.Millisecond) // in no step with pictures that come by themselves
		for len(seen) > 0 {
			<-seen
		}
		bright := i%2 == 1 // a page is white at first
		t0 := time.Now()
		select {
		case colours <- map[bool]string{true: "white", false: "black"}[bright]:
		case <-time.After(10 * time.Second):
			return nil, errors.New("the page does not ask for colours")
		}
		for {
			select {
			case s := <-seen:
				img, err := jpeg.Decode(bytes.NewReader(s.jpeg))
				if err != nil {
					return nil, err
				}
				c := img.Bounds()
				if r, _, _, _ := img.At(c.Dx()/2, c.Dy()/2).RGBA(); (r > 0x8000) == bright {
					took = append(took, ms(s.at.Sub(t0)))
				} else {
					continue
				}
			case <-time.After(10 * time.Second):
				return nil, errors.New("the colour is not seen within 10 s")
			}
			break
		}
	}
	return took, nil
}

// nulPipe is Chromium's own debugging pipe.
type nulPipe struct {
	r    *bufio.Reader
	w    *os.File
	from *os.File
}

func (p nulPipe) Receive() ([]byte, error) {
	line, err := p.r.ReadBytes(0)
	return bytes.TrimSuffix(line, []byte{0}), err
}

func (p nulPipe) Send(m []byte) error { _, err := p.w.Write(append(m, 0)); return err }
func (p nulPipe) Close()              { _ = p.w.Close(); _ = p.from.Close() }

// bareChromium shows a page in a Chromium of its own, with nothing between it and the bench, and passes on its pictures.
func bareChromium(dir, page string, seen chan<- sighting) (stop func(), err error) {
	path, err := pages.Find(os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args, err := pages.Windowed(dir, true, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, append(args, "--headless=new", "--remote-debugging-pipe", "--hide-scrollbars", "--window-size=1280,800", "about:blank")...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = theirIn.Close(), theirOut.Close()
	var conn *cdp.Conn
	conn = cdp.New(nulPipe{bufio.NewReaderSize(ourOut, 1<<20), ourIn, ourOut}, func(e cdp.Event) {
		var p struct {
			Session int `json:"sessionId"`
		}
		if e.Method == "Page.screencastFrame" && e.Into(&p) {
			conn.Post(e.Session, "Page.screencastFrameAck", map[string]any{"sessionId": p.Session})
			select {
			case seen <- sighting{time.Now(), e.Picture}:
			default:
			}
		}
	})
	done := make(chan error, 1)
	go func() { done <- conn.Run() }()
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		conn.Close()
		<-done
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	for _, c := range []struct {
		session        *string
		method         string
		params, result any
	}{
		{nil, "Target.createTarget", map[string]any{"url": page}, &target},
		{nil, "Target.attachToTarget", func() any { return map[string]any{"targetId": target.TargetID, "flatten": true} }, &attached},
		{&attached.SessionID, "Page.enable", nil, nil},
		{&attached.SessionID, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil},
		{&attached.SessionID, "Page.bringToFront", nil, nil},
		{&attached.SessionID, "Page.startScreencast", map[string]any{"format": "jpeg", "quality": 60, "maxWidth": 1280, "maxHeight": 800, "everyNthFrame": 1}, nil},
	} {
		session := ""
		if c.session != nil {
			session = *c.session
		}
		if late, ok := c.params.(func() any); ok {
			c.params = late()
		}
		if err := conn.Call(ctx, session, c.method, c.params, c.result); err != nil {
			stop()
			return nil, fmt.Errorf("%s: %w", c.method, err)
		}
	}
	return stop, nil
}

// mostPictures is how many a second viewers get at most, however many a page draws.
const mostPictures = 25

// bareMoves is how many pictures a second of a page that moves there are with nothing in between, and at most what viewers get.
func bareMoves(dir, page string, most time.Duration) (float64, error) {
	seen := make(chan sighting, 10_000)
	stop, err := bareChromium(dir, page, seen)
	if err != nil {
		return 0, err
	}
	defer stop()
	time.Sleep(500 * time.Millisecond)
	before := len(seen)
	time.Sleep(most)
	return min(float64(len(seen)-before)/most.Seconds(), mostPictures), nil
}

// liveViewer is one person's view of a browser, or of the least a server of pictures does.
type liveViewer struct {
	conn          *websocket.Conn
	frames, bytes atomic.Int64
	done          chan struct{}
}

// viewLive opens a view, acknowledges all it is sent, and passes on pictures when somebody wants them.
func viewLive(url string, header http.Header, seen chan<- sighting) (*liveViewer, error) {
	conn, _, err := (&websocket.Dialer{ReadBufferSize: 64 << 10}).Dial("ws"+strings.TrimPrefix(url, "http"), header)
	if err != nil {
		return nil, err
	}
	v := &liveViewer{conn: conn, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for {
			kind, raw, err := conn.ReadMessage()
			if err != nil {
				return
			}
			if kind != websocket.BinaryMessage || len(raw) < frameHead {
				continue
			}
			v.frames.Add(1)
			v.bytes.Add(int64(len(raw)))
			if seen != nil {
				select {
				case seen <- sighting{time.Now(), raw[frameHead:]}:
				default:
				}
			}
			seq := uint32(raw[0])<<24 | uint32(raw[1])<<16 | uint32(raw[2])<<8 | uint32(raw[3])
			if conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"ack","frame":%d}`, seq)) != nil {
				return
			}
		}
	}()
	return v, nil
}

func (v *liveViewer) close() {
	_ = v.conn.Close()
	<-v.done
}

// crowd has so many viewers look for a while, and says what each got and what the process that served them used.
type crowd struct {
	fps, slowest float64 // pictures a second: of the median viewer, and of the one that got fewest
	size         float64 // bytes of a picture
	cpu          float64 // ms of CPU a second
	memory       float64 // MB that the process holds more than before
}

func look(n, pid int, most time.Duration, open func() (*liveViewer, error)) (c crowd, err error) {
	before := rss(pid)
	var all []*liveViewer
	defer func() {
		for _, v := range all {
			v.close()
		}
	}()
	for range n {
		v, err := open()
		if err != nil {
			return c, err
		}
		all = append(all, v)
	}
	time.Sleep(500 * time.Millisecond) // until all of them have their first picture
	start := make([]int64, n)
	for i, v := range all {
		start[i] = v.frames.Load()
	}
	used, t0 := cpu(pid), time.Now()
	time.Sleep(most)
	took := time.Since(t0).Seconds()
	c.cpu = ms(cpu(pid)-used) / took
	c.memory = float64(rss(pid)-before) / 1e6
	var fps []float64
	var frames, size int64
	for i, v := range all {
		fps = append(fps, float64(v.frames.Load()-start[i])/took)
		frames, size = frames+v.frames.Load(), size+v.bytes.Load()
	}
	c.fps, c.slowest = median(fps), fps[0]
	for _, f := range fps {
		c.slowest = min(c.slowest, f)
	}
	c.size = float64(size) / float64(max(frames, 1))
	return c, nil
}

// live measures the browser's live view: how soon a viewer sees what a page shows, beside a Chromium with nothing in between; and pictures a
// second and CPU with 1, 10 and 50 viewers, beside a server that does nothing but send as many pictures of that size.
func (b *bench) live() error {
	if _, err := pages.Find(os.Getenv("PATH")); err != nil {
		fmt.Println("  browser: not measured, Chromium is not installed")
		return nil
	}
	h, err := b.ownHarness("live")
	if err != nil {
		return err
	}
	defer h.stop()
	defer func() { _ = h.do("POST", "/workspaces/"+h.workspace+"/destroy-sandbox", nil, nil) }()
	g := newGlass()
	defer g.Close()
	defer g.CloseClientConnections() // pages hold them open
	open := func(page string) error {
		return h.do("POST", "/workspaces/"+h.workspace+"/tools/browser_open", map[string]any{"arguments": map[string]any{"url": page}}, nil)
	}
	view := func(seen chan<- sighting) (*liveViewer, error) {
		return viewLive(h.url+"/api/v1/workspaces/"+h.workspace+"/browser/live", http.Header{"Authorization": {"Bearer " + h.token}}, seen)
	}
	if err := b.glassToGlass(h, g, open, view); err != nil {
		return err
	}
	if err := open(g.URL + "/moves"); err != nil {
		return err
	}
	window := time.Duration(b.size(8, 2)) * time.Second
	var fps, bareFps []float64
	for range b.size(3, 1) { // by turns, so that both have the same machine
		bare, err := bareMoves(filepath.Join(h.data, "bare-moves"), g.URL+"/moves", window/2)
		if err != nil {
			return err
		}
		one, err := look(1, h.cmd.Process.Pid, window/2, func() (*liveViewer, error) { return view(nil) })
		if err != nil {
			return err
		}
		fps, bareFps = append(fps, one.fps), append(bareFps, bare)
	}
	r := median(fps) / median(bareFps)
	b.figure("browser, 1 viewer, pictures a second", f1(median(fps)), f1(median(bareFps)), r, ">= 0.9", r >= 0.9)
	var alone crowd
	for _, n := range []int{1, 10, 50} {
		ours, err := look(n, h.cmd.Process.Pid, window, func() (*liveViewer, error) { return view(nil) })
		if err != nil {
			return err
		}
		if n == 1 {
			alone = ours
			fmt.Printf("    a picture has %.0f KB; with one viewer the server uses %.0f ms of CPU a second\n", ours.size/1e3, ours.cpu)
			continue
		}
		base, err := b.leastServer(n, int(ours.size), ours.fps, window)
		if err != nil {
			return err
		}
		r := ours.slowest / alone.fps
		b.figure(fmt.Sprintf("browser, %d viewers, pictures a second, slowest", n), f1(ours.slowest), f1(alone.fps), r, ">= 0.9", r >= 0.9)
		each, least := (ours.cpu-alone.cpu)/float64(n-1), base.cpu/float64(n)
		b.figure(fmt.Sprintf("browser, %d viewers, CPU of each, ms/s", n), f2(each), f2(least), each/least, "<= 2", each <= 2*least)
		fmt.Printf("    the server uses %.0f ms of CPU a second, and holds %.1f MB more\n", ours.cpu, ours.memory)
	}
	return nil
}

// glassToGlass measures by turns, so that both have the same machine.
func (b *bench) glassToGlass(h *harness, g *glass, open func(string) error, view func(chan<- sighting) (*liveViewer, error)) error {
	var base, ours []float64
	for range b.size(3, 1) {
		n := b.size(20, 4)
		seen := make(chan sighting, 100)
		page, colours := g.page()
		stop, err := bareChromium(filepath.Join(h.data, "bare-chromium"), page, seen)
		if err != nil {
			return err
		}
		took, err := latency(n, colours, seen)
		stop()
		if err != nil {
			return fmt.Errorf("bare Chromium: %w", err)
		}
		base = append(base, took...)
		page, colours = g.page()
		if err := open(page); err != nil {
			return err
		}
		v, err := view(seen)
		if err != nil {
			return err
		}
		took, err = latency(n, colours, seen)
		v.close()
		if err != nil {
			return fmt.Errorf("parawork: %w", err)
		}
		ours = append(ours, took...)
	}
	r := median(ours) / median(base)
	b.figure("browser, page to viewer, p50, ms", f1(median(ours)), f1(median(base)), r, "<= 1.5", r <= 1.5)
	return nil
}

// leastServer is a process that sends pictures of that size to each viewer, so many a second, and reads acknowledgements.
func (b *bench) leastServer(n, size int, fps float64, most time.Duration) (crowd, error) {
	p, err := start(nil, nil, b.self, "child-pictures", strconv.Itoa(size), strconv.FormatFloat(fps, 'f', 2, 64))
	if err != nil {
		return crowd{}, err
	}
	defer p.stop()
	return look(n, p.cmd.Process.Pid, most, func() (*liveViewer, error) { return viewLive(p.url+"/", nil, nil) })
}

// childPictures is `child-pictures SIZE FPS`: to each client that connects it sends one picture again and again.
func childPictures(args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fps, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", ln.Addr())
	picture := bytes.Repeat([]byte{7}, size)
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	return http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		var reader sync.WaitGroup
		reader.Go(func() {
			var ack struct{ Frame uint32 }
			for {
				_, m, err := conn.NextReader()
				if err != nil || json.NewDecoder(m).Decode(&ack) != nil && !errors.Is(err, io.EOF) {
					return
				}
			}
		})
		tick := time.NewTicker(time.Duration(float64(time.Second) / fps))
		defer tick.Stop()
		for range tick.C {
			if conn.WriteMessage(websocket.BinaryMessage, picture) != nil {
				break
			}
		}
		reader.Wait()
	}))
}
