package server

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// streamPatience is how long a client may take for one piece of a download.
const streamPatience = 2 * time.Minute

// stream copies body to the client in pieces. The first piece is read before the answer begins, so that what fails at once is
// still a proper error; what fails later cuts the connection, since a short answer must not look like a whole one.
func stream(w http.ResponseWriter, body io.Reader, size int64) error {
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
			_ = rc.SetWriteDeadline(time.Now().Add(streamPatience))
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

// download begins its answer with the first piece.
type download struct {
	w          http.ResponseWriter
	name, mime string
	begun      bool
}

func (d *download) Write(p []byte) (int, error) {
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", d.mime)
		d.w.Header().Set("Content-Disposition", `attachment; filename="`+d.name+`"`)
		d.w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(d.w).SetWriteDeadline(time.Now().Add(streamPatience))
	return d.w.Write(p)
}
