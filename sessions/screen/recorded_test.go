package screen

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// recordings returns what real programs printed, with the sizes their terminals had: those kept in testdata, and those in the
// folder PARAWORK_RECORDINGS names.
func recordings(t *testing.T) map[string]request {
	t.Helper()
	paths, err := filepath.Glob("testdata/recorded/*.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("PARAWORK_RECORDINGS"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
		if err != nil || len(more) == 0 {
			t.Fatalf("no recordings in %s: %v", dir, err)
		}
		paths = append(paths, more...)
	}
	out := make(map[string]request)
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		var r request
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = r
	}
	return out
}

// head returns the first n bytes of a recording.
func (r request) head(n int) request {
	ops := r.Ops
	r.Ops = nil
	for _, o := range ops {
		if o.R == nil && len(o.W) > n {
			r.Ops = append(r.Ops, op{W: o.W[:n]})
			break
		}
		n -= len(o.W)
		r.Ops = append(r.Ops, o)
	}
	return r
}

func (r request) bytes() (n int) {
	for _, o := range r.Ops {
		n += len(o.W)
	}
	return n
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	for name, r := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := r.bytes()
			for i := range 20 {
				r := r.head(total * (i + 1) / 20)
				s := frozen(r.Cols, r.Rows, r.Scrollback)
				pieces := frozen(r.Cols, r.Rows, r.Scrollback)
				for _, o := range r.Ops {
					if o.R != nil {
						s.Resize(o.R[0], o.R[1])
						pieces.Resize(o.R[0], o.R[1])
						continue
					}
					s.Write(o.W)
					for at := range o.W {
						pieces.Write(o.W[at : at+1])
					}
				}
				mustEqual(t, "byte by byte", pieces.dump(), s.dump())
				checkSnapshot(t, fmt.Sprintf("%d of 20 parts", i+1), s)
			}
		})
	}
}

func TestRecordedLikeXterm(t *testing.T) {
	x := startXterm(t)
	for name, r := range recordings(t) {
		total := r.bytes()
		for i := range 40 {
			part := r.head(total * (i + 1) / 40)
			if d := x.compare(t, part); d != "" {
				t.Errorf("%s, %d of 40 parts: %.3000s", name, i+1, d)
			}
		}
	}
}
