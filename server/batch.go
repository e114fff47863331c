package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/remote"
)

const (
	batchMost   = 64               // reads in one batch
	batchAtOnce = 6                // answered at the same time, as many as a browser asks for over HTTP/1.1
	batchBody   = 16 << 10         // bytes of the request
	batchAnswer = 2 << 20          // of one answer: a longer one is to be asked for by itself
	batchWithin = 30 * time.Second // that one read may take
)

// batchLine introduces an answer; the line after it is the answer itself.
type batchLine struct {
	Index  int `json:"index"`
	Status int `json:"status"` // 0: it cannot be answered here, and is to be asked for by itself
}

// readBatch answers many reads in one request, each as soon as it is there. Each is a request of its own to the server's handler with what
// says who asks, so that it meets the guard that it would meet alone.
func (s *Server) readBatch(c echo.Context) error {
	var asked struct {
		Paths []string `json:"paths"`
	}
	if err := (rest.Binder{}).Bind(&asked, c); err != nil {
		return err
	}
	if n := len(asked.Paths); n == 0 || n > batchMost {
		return fault.New(fault.Invalid, "invalid_batch", "Name 1 to %d paths to read.", batchMost)
	}
	for _, p := range asked.Paths {
		if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "/batch") {
			return fault.New(fault.Invalid, "invalid_batch", "A path to read begins with / and is below %s; a batch cannot be in a batch.", rest.Base)
		}
	}
	r, out := c.Request(), newBatchWriter(c)
	defer out.close()
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(batchAtOnce, len(asked.Paths)) {
		readers.Go(func() {
			for i := range next {
				status, body := s.readOne(r, asked.Paths[i])
				out.write(i, status, body)
			}
		})
	}
	for i := range asked.Paths {
		select {
		case next <- i:
		case <-r.Context().Done(): // whoever asked has left: what is being read ends, too
		case <-out.failed:
		}
	}
	close(next)
	readers.Wait()
	return nil
}

// readOne asks the server's own handler. The status 0 is that of an answer that does not fit into a line.
func (s *Server) readOne(from *http.Request, path string) (status int, body []byte) {
	ctx, cancel := context.WithTimeout(from.Context(), batchWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rest.Base+path, http.NoBody)
	if err != nil {
		return 0, nil
	}
	for _, name := range []string{"Cookie", "User-Agent", remote.ClientHeader} {
		if v := from.Header.Values(name); len(v) > 0 {
			r.Header[name] = v
		}
	}
	w := &answerWriter{header: http.Header{}, most: batchAnswer, json: true}
	if err := (inProcess{s, from}).serve(w, r); err != nil || w.err != nil {
		return 0, nil
	}
	var line bytes.Buffer
	if json.Compact(&line, w.body.Bytes()) != nil { // also without the line breaks that JSON may have
		return 0, nil
	}
	return w.status, line.Bytes()
}

// batchWriter writes answers in lines as they come, compressed for who takes that.
type batchWriter struct {
	mu     sync.Mutex
	to     io.Writer
	rc     *http.ResponseController
	zip    *gzip.Writer
	failed chan struct{} // closed when nothing arrives any more
	err    error
}

func newBatchWriter(c echo.Context) *batchWriter {
	h := c.Response().Header()
	h.Set("Content-Type", "application/x-ndjson")
	w := &batchWriter{to: c.Response(), rc: http.NewResponseController(c.Response()), failed: make(chan struct{})}
	if strings.Contains(c.Request().Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		w.zip = gzip.NewWriter(c.Response())
		w.to = w.zip
	}
	c.Response().WriteHeader(http.StatusOK)
	return w
}

func (w *batchWriter) write(index, status int, body []byte) {
	if status == 0 {
		body = []byte("null")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	if w.err = w.send(batchLine{index, status}, body); w.err != nil {
		close(w.failed)
	}
}

// send writes the two lines of an answer and has them on their way at once.
func (w *batchWriter) send(head batchLine, body []byte) error {
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_ = w.rc.SetWriteDeadline(time.Now().Add(rest.StreamPatience)) // not every transport has deadlines
	defer func() { _ = w.rc.SetWriteDeadline(time.Time{}) }()      // the next answer may take longer
	if _, err := w.to.Write(slices.Concat(line, []byte("\n"), body, []byte("\n"))); err != nil {
		return err
	}
	if w.zip != nil {
		if err := w.zip.Flush(); err != nil {
			return err
		}
	}
	return w.rc.Flush()
}

// close ends the answer. Of one that failed there is nobody to tell.
func (w *batchWriter) close() {
	if w.zip != nil && w.err == nil {
		_ = w.zip.Close()
	}
}
