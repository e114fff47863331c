package kubernetes

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/guest/call"
)

// receiver is what an exec runs to bring the guest: it says whether the program is needed, takes a packed folder of so many bytes, tries the
// program, and has the pod's first process go on when the folder says what it becomes.
const receiver = `r=` + runDir + `
[ -e ` + endedFile + ` ] && { echo ended; exit 0; }
[ -e ` + goFile + ` ] && { echo going; exit 0; }
if [ -x ` + guestFile + ` ] || [ -x "$1" ]; then echo have; else echo need; fi
IFS= read -r n || exit 1
head -c "$n" | gzip -dc | tar -xf - -C $r || exit 1
[ -e ` + guestFile + ` ] || ln -s "$1" ` + guestFile + ` || exit 1
` + guestFile + ` version >/dev/null || exit 1
if [ -e ` + goFile + `.part ]; then mv ` + goFile + `.part ` + goFile + ` || exit 1; fi
echo done
`

// errOver says that a host had the guest end: the sandbox is over.
var errOver = errors.New("its guest was asked to end")

// execRetry is how long a node may take to run programs after its pods run: one that has just joined says it is ready before that.
const execRetry = time.Minute

// boot brings the guest into a pod that runs, and has it start. It can be done again.
func (s *sandbox) boot(ctx context.Context, c *cluster) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.e.cfg.ReadyIn, &problem{reason: GuestFailed, said: "it cannot be brought into the pod in " + s.e.cfg.ReadyIn.String()})
	defer cancel()
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 3*time.Second) {
		err := s.bring(ctx, c)
		if err == nil || errors.Is(err, errOver) {
			return err
		}
		if x, failed := errors.AsType[*exitError](err); failed {
			return &problem{reason: GuestFailed, said: x.Error(), cause: err}
		}
		if r := why(err); r == BadKey || r == Rights {
			return err
		}
		if p, perr := c.pod(ctx, s.record().Pod); isStatus(perr, http.StatusNotFound) || perr == nil && p.phase() == "ended" {
			return &problem{reason: GuestFailed, said: endOr(p, "the pod ended while it was started"), cause: err}
		}
		last = err
		if sleep(ctx, wait) != nil {
			break
		}
	}
	return errors.Join(context.Cause(ctx), last)
}

func endOr(p pod, otherwise string) string {
	if w := endWords(p); w != "" {
		return w
	}
	return otherwise
}

// bring does it once.
func (s *sandbox) bring(ctx context.Context, c *cluster) error {
	prog, err := s.e.program()
	if err != nil {
		return err
	}
	st, err := s.e.exec(c, s.record().Pod, "/bin/sh", "-c", receiver, "parawork", imageGuest+prog.hash)
	if err != nil {
		return err
	}
	defer st.Close()
	defer context.AfterFunc(ctx, func() { st.cut(context.Cause(ctx)) })()
	answer, err := readLine(st)
	if err != nil {
		return ended(ctx, st, err)
	}
	switch answer {
	case "ended":
		return errOver
	case "going":
		return nil
	case "need", "have":
	default:
		return &problem{reason: GuestFailed, said: "what answers in the pod is not what was started"}
	}
	pack, err := s.pack(prog, answer == "need")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(st, "%d\n", len(pack)); err != nil {
		return ended(ctx, st, err)
	}
	if _, err := st.Write(pack); err != nil {
		return ended(ctx, st, err)
	}
	if answer, err = readLine(st); err != nil {
		return ended(ctx, st, err)
	}
	if answer != "done" {
		return &problem{reason: GuestFailed, said: "what answers in the pod is not what was started"}
	}
	return nil
}

// ended is how a program ended whose stream broke off with err.
func ended(ctx context.Context, st *stream, err error) error {
	wctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if end := st.wait(wctx); end != nil && wctx.Err() == nil {
		return end
	}
	return err
}

// readLine reads a short line, byte by byte: what follows it is somebody else's.
func readLine(r io.Reader) (string, error) {
	var b [1]byte
	var out []byte
	for len(out) < 200 {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(out), nil
		}
		out = append(out, b[0])
	}
	return "", errors.New("the line is too long")
}

// pack is the folder that is sent: what the guest must know, what the first process becomes, and the guest's program where it is needed.
func (s *sandbox) pack(prog program, whole bool) ([]byte, error) {
	type file struct {
		name    string
		mode    int64
		content string
	}
	files := []file{{"bin/", 0o755, ""}}
	env, err := s.e.files.Env(s.id)
	if err != nil {
		return nil, err
	}
	secret, host := "", []byte(nil)
	if r := s.record(); r.Calls != "" && !r.Warm {
		secret = call.Secret(s.token, r.Calls)
		if host, err = json.Marshal(s.host); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(bootfile.BootFile{Token: s.token, Env: env, Call: secret})
	if err != nil {
		return nil, err
	}
	if host != nil {
		files = append(files, file{path.Base(callFile), 0o644, string(host)})
	}
	if !s.record().Warm { // else it is nobody's yet
		files = append(files, file{path.Base(bootFile), 0o400, string(b)}, file{path.Base(goFile) + ".part", 0o644, strings.Join(s.guestArgs(), "\n") + "\n"})
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(t, f.content); err != nil {
			return nil, err
		}
	}
	if whole { // packed once for all pods: gzip's parts follow each other
		if err := errors.Join(t.Flush(), z.Close()); err != nil {
			return nil, err
		}
		rest, err := prog.gz()
		if err != nil {
			return nil, err
		}
		return append(out.Bytes(), rest...), nil
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// program returns the guest's program. It is packed when a pod first needs it.
func (e *Executor) program() (program, error) {
	info, err := os.Stat(e.cfg.GuestPath)
	if err != nil {
		return program{}, fmt.Errorf("finding the guest: %w", err)
	}
	e.mu.Lock()
	p := e.guest
	e.mu.Unlock()
	if p.hash != "" && p.at.Equal(info.ModTime()) && p.size == info.Size() {
		return p, nil
	}
	content, err := os.ReadFile(e.cfg.GuestPath)
	if err != nil {
		return program{}, fmt.Errorf("reading the guest: %w", err)
	}
	sum := sha256.Sum256(content)
	p = program{at: info.ModTime(), size: info.Size(), hash: hex.EncodeToString(sum[:8]), gz: sync.OnceValues(func() ([]byte, error) { return packProgram(content) })}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guest = p
	return p, nil
}

// guestArgs is what the pod's first process becomes. No secret is in it.
func (s *sandbox) guestArgs() []string {
	r := s.record()
	args := []string{guestFile, "serve", "--sandbox", s.id, "--root", r.Root, "--make-root", "--dir", guestDir, "--listen", socketFile, "--home", insideHome,
		"--boot-file", bootFile, "--ended", endedFile, "--own-env", "--own-network", "--sealed"}
	if r.Gate != "" {
		args = append(args, "--egress", egressFile)
	}
	if r.Calls != "" {
		args = append(args, "--call-file", callFile)
	}
	return args
}

// packProgram packs the guest's program as the rest of a packed folder.
func packProgram(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(guestFile, runDir+"/"), Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := t.Write(content); err != nil {
		return nil, err
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
