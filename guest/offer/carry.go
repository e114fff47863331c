package offer

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"github.com/parawork/parawork/internal/proxycopy"
)

// ErrCut makes an answer that has begun end as cut off, not as complete.
var ErrCut = errors.New("answer cut off")

// Begin sends the header of an answer whose body comes later.
func Begin(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	return http.NewResponseController(w).Flush()
}

// Carry carries a connection in the bodies of a request and its answer, whose header was sent. whole: the end of input from conn
// ends both directions.
func Carry(w http.ResponseWriter, r *http.Request, conn proxycopy.Conn, whole bool) error {
	sent := make(chan struct{})
	go func() { // ends with the request's body, or with conn
		defer close(sent)
		if _, err := io.Copy(conn, r.Body); err != nil || conn.CloseWrite() != nil {
			_ = conn.Close()
		}
	}()
	rc := http.NewResponseController(w)
	from := bufio.NewReaderSize(conn, 32<<10)
	var err error
	for err == nil {
		if _, err = from.Peek(1); err != nil {
			break
		}
		var p []byte
		if p, err = from.Peek(from.Buffered()); err == nil {
			if _, err = w.Write(p); err == nil {
				_, _ = from.Discard(len(p))
				err = rc.Flush()
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		_ = conn.Close()
		return ErrCut
	}
	if whole {
		return nil
	}
	<-sent
	return nil
}
