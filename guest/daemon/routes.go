package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/fault"
)

// maxRequest bounds the JSON of a request: arguments and environment at their limits, escaped.
const maxRequest = 4 * guest.MaxJSON

// handler serves all routes of the protocol.
func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/hello":                          d.serveHello,
		"GET /v1/stats":                          d.serveStats,
		"POST /v1/shutdown":                      d.serveShutdown,
		"POST /v1/processes":                     d.serveStart,
		"GET /v1/processes":                      d.serveProcesses,
		"GET /v1/processes/{id}":                 d.serveProcess,
		"DELETE /v1/processes/{id}":              d.serveRemove,
		"GET /v1/processes/{id}/wait":            d.serveWait,
		"GET /v1/processes/{id}/work":            d.serveWork,
		"GET /v1/processes/{id}/output/{stream}": d.serveOutput,
		"POST /v1/processes/{id}/input":          d.serveInput,
		"POST /v1/processes/{id}/close-stdin":    d.serveCloseStdin,
		"POST /v1/processes/{id}/ack":            d.serveAck,
		"POST /v1/processes/{id}/resize":         d.serveResize,
		"POST /v1/processes/{id}/signal":         d.serveSignal,
		"POST /v1/processes/{id}/stop":           d.serveStop,
		"GET /v1/stat":                           d.scoped(d.serveStat, d.homeStat),
		"GET /v1/list":                           d.scoped(d.serveList, d.homeList),
		"GET /v1/files":                          d.scoped(d.serveReadFile, d.homeRead),
		"PUT /v1/files":                          d.scoped(d.serveWriteFile, d.homeWrite),
		"DELETE /v1/files":                       d.scoped(d.serveRemoveFile, d.homeRemove),
		"POST /v1/move":                          serveMove(d),
		"POST /v1/mkdir":                         d.scoped(d.serveMkdir, d.homeMkdir),
		"POST /v1/symlink":                       d.serveSymlink,
		"GET /v1/glob":                           d.serveGlob,
		"POST /v1/ports/{port}":                  d.servePort,
		"POST /v1/desktops/{id}/{socket}":        d.serveDesktop,
		"POST " + guest.GatewayPath:              d.gateway.Handle,
		"POST " + guest.ToolsPath:                d.tools.Handle,
		"GET /v1/hooks":                          d.serveHooks,
		"POST /v1/hooks/{id}/answer":             d.serveAnswerHook,
		"GET /v1/bundles/{id}":                   d.serveBundle,
		"PUT /v1/bundles/{id}":                   d.serveBundlePiece,
		"POST /v1/bundles/{id}/unpack":           d.serveUnpack,
		"GET /v1/changes/watch":                  d.serveWatch,
		"POST /v1/changes/poll":                  d.servePoll,
		"POST /v1/changes/dirty":                 d.serveDirty,
		"POST /v1/changes/diff":                  d.serveDiff,
		"POST /v1/contents":                      d.serveContents,
		"POST /v1/walk":                          d.serveWalk,
		"POST /v1/home":                          d.serveFillHome,
		"POST /v1/search":                        d.search.Handle,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				d.refuse(w, r, err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := digest(given)
		if subtle.ConstantTimeCompare(sum[:], d.token[:]) != 1 {
			d.refuse(w, r, fault.New(fault.Unauthorized, "guest_unauthorized", "The guest does not recognize this host."))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func digest(token string) [32]byte { return sha256.Sum256([]byte(token)) }

var (
	// errCut makes an answer that has begun end as cut off, not as complete.
	errCut = offer.ErrCut
	// errHijacked reports that the pipe was taken over and needs no answer any more.
	errHijacked = errors.New("pipe taken over")
)

// refuse answers with an error.
func (d *Daemon) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, errHijacked) {
		return
	}
	if r.Context().Err() != nil {
		return // nobody reads the answer
	}
	body := guest.ErrorBody{Kind: string(fault.KindOf(err)), Code: fault.CodeOf(err), Message: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		body.Message = f.Message
	} else {
		body.Code = "guest_failed"
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		body = guest.ErrorBody{Kind: string(fault.DiskFull), Code: "disk_full", Message: "The sandbox's disk is full. Free space and try again."}
	}
	status, ok := statuses[fault.Kind(body.Kind)]
	if !ok {
		status = http.StatusInternalServerError
	}
	answer(w, status, body)
}

var statuses = map[fault.Kind]int{
	fault.Invalid: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Conflict: 409, fault.Gone: 410,
	fault.Precondition: 412, fault.TooLarge: 413, fault.Unsupported: 501, fault.Unavailable: 503, fault.DiskFull: 507,
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a host that is gone needs no answer
}

// done sends an empty answer.
func done(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// body reads the request's JSON into v.
func body(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	if err := dec.Decode(v); err != nil {
		return fault.Wrap(err, fault.Invalid, "invalid_request", "The request cannot be read: %v.", err)
	}
	return nil
}

// number reads a number from the query, 0 where there is none.
func number(r *http.Request, name string) (int64, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.Invalid, "invalid_number", "%s must be a number that is not negative.", name)
	}
	return n, nil
}

func (d *Daemon) serveHello(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, d.hello())
	return nil
}

func (d *Daemon) serveStats(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, d.stats())
	return nil
}

func (d *Daemon) serveShutdown(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusAccepted)
	// The end that follows cuts the pipe. A flush passes a frame to the connection without waiting until it has been sent; the
	// next frame is accepted only then. So a successful second flush shows that the answer's header is on its way.
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	_, _ = w.Write([]byte("\n"))
	_ = rc.Flush()
	d.quitOnce.Do(func() { close(d.quit) })
	return nil
}

// fromDisk gives errors of the file system their kinds.
func fromDisk(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.NotFound, "file_not_found", "There is no file %q in the workspace.", path)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(err, fault.Conflict, "not_a_directory", "A part of %q is a file, not a folder.", path)
	case errors.Is(err, syscall.EISDIR):
		return fault.Wrap(err, fault.Conflict, "is_a_directory", "%q is a folder.", path)
	case errors.Is(err, syscall.ENOTEMPTY):
		return fault.Wrap(err, fault.Conflict, "not_empty", "The folder %q is not empty.", path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Wrap(err, fault.Invalid, "invalid_path", "The path is too long for the sandbox's disk.")
	case errors.Is(err, syscall.ELOOP):
		return fault.Wrap(err, fault.Invalid, "invalid_path", "%q is a link that leads in a circle.", path)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(err, fault.Forbidden, "file_forbidden", "The sandbox may not do this to %q.", path)
	case errors.Is(err, fs.ErrExist):
		return fault.Wrap(err, fault.Conflict, "file_exists", "%q exists already.", path)
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root has no error value for it
		return fault.Wrap(err, fault.Invalid, "path_escapes", "%q leads out of the workspace.", path)
	}
	return err
}
