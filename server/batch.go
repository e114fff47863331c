package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

const (
	batchMost   = 64               // reads in one batch
	batchAtOnce = 6                // answered at the same time, as many as a browser asks for over HTTP/1.1
	batchBody   = 16 << 10         // bytes of the request
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
	out := newBatchWriter(c)
	defer out.close()
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(batchAtOnce, len(asked.Paths)) {
		readers.Go(func() {
			for i := range next {
				out.write(i, s.readOne(c.Request(), asked.Paths[i]))
			}
		})
	}
	for i := range asked.Paths {
		next <- i
	}
	close(next)
	readers.Wait()
	return nil
}

// readOne asks the server's own handler. Nil is an answer that does not fit into a line.
func (s *Server) readOne(from *http.Request, path string) *http.Response {
	ctx, cancel := context.WithTimeout(from.Context(), batchWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rest.Base+path, http.NoBody)
	if err != nil {
		return nil
	}
	for _, name := range []string{"Cookie", "User-Agent", "X-Parawork-Client"} {
		if v := from.Header.Values(name); len(v) > 0 {
			r.Header[name] = v
		}
	}
	answer, err := inProcess{s, from}.Do(r)
	if err != nil || !strings.Contains(answer.Header.Get("Content-Type"), "json") {
		return nil
	}
	return answer
}

// batchWriter writes answers in lines as they come, compressed for who takes that.
type batchWriter struct {
	mu    sync.Mutex
	to    io.Writer
	flush func()
	zip   *gzip.Writer
}

func newBatchWriter(c echo.Context) *batchWriter {
	h := c.Response().Header()
	h.Set("Content-Type", "application/x-ndjson")
	w := &batchWriter{to: c.Response(), flush: c.Response().Flush}
	if strings.Contains(c.Request().Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		w.zip = gzip.NewWriter(c.Response())
		w.to = w.zip
	}
	c.Response().WriteHeader(http.StatusOK)
	return w
}

func (w *batchWriter) write(index int, answer *http.Response) {
	line := batchLine{Index: index}
	body := bytes.NewBufferString("null")
	if answer != nil {
		raw, _ := io.ReadAll(answer.Body) // of memory
		one := &bytes.Buffer{}
		if json.Compact(one, raw) == nil { // also without the line breaks that JSON may have
			line.Status, body = answer.StatusCode, one
		}
	}
	head, _ := json.Marshal(line) // two numbers
	w.mu.Lock()
	defer w.mu.Unlock()
	// Whoever has gone away is noticed by the request's context.
	_, _ = w.to.Write(append(head, '\n'))
	_, _ = w.to.Write(append(body.Bytes(), '\n'))
	if w.zip != nil {
		_ = w.zip.Flush()
	}
	w.flush()
}

func (w *batchWriter) close() {
	if w.zip != nil {
		_ = w.zip.Close()
	}
}
