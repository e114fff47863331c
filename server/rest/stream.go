package rest

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// StreamPatience is how long a client may take for one piece of a download.
const StreamPatience = 2 * time.Minute

// Stream copies body to the client in pieces. The first piece is read before the answer begins, so that what fails at once is
// still a proper error; what fails later cuts the connection, since a short answer must not look like a whole one.
func Stream(w http.ResponseWriter, body io.Reader, size int64) error {
	buf := make([]byte, 64<<10)
	n, err := readPiece(body, buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case size >= 0:
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	case errors.Is(err, io.EOF):
		w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	sent := int64(0)
	for {
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(StreamPatience))
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			sent += int64(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		n, err = readPiece(body, buf)
	}
	if size >= 0 && sent < size { // the file grew shorter meanwhile
		panic(http.ErrAbortHandler)
	}
	_ = rc.SetWriteDeadline(time.Time{})
	return nil
}

// readPiece reads until something is there.
func readPiece(r io.Reader, buf []byte) (int, error) {
	for {
		if n, err := r.Read(buf); n > 0 || err != nil {
			return n, err
		}
	}
}

// Download begins its answer with the first piece.
type Download struct {
	Writer     http.ResponseWriter
	Name, MIME string
	Begun      bool
}

// Write sends a piece of the file.
func (d *Download) Write(p []byte) (int, error) {
	if !d.Begun {
		d.Begun = true
		d.Writer.Header().Set("Content-Type", d.MIME)
		d.Writer.Header().Set("Content-Disposition", `attachment; filename="`+d.Name+`"`)
		d.Writer.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(d.Writer).SetWriteDeadline(time.Now().Add(StreamPatience))
	return d.Writer.Write(p)
}
