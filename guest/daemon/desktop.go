package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

// serveDesktop connects the host with a socket of a desktop in the sandbox.
func (d *Daemon) serveDesktop(w http.ResponseWriter, r *http.Request) error {
	id, socket := r.PathValue("id"), guest.DesktopSocket(r.PathValue("socket"))
	if err := guest.CheckID(id); err != nil {
		return err
	}
	if socket != guest.DesktopVNC && socket != guest.DesktopControl {
		return fault.New(fault.Invalid, "invalid_socket", "A desktop has no socket of this name.")
	}
	return servePipe(d, w, r, string(socket), func(ctx context.Context) (proxycopy.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, portIn)
		defer cancel()
		dir := guest.DesktopDir(id)
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			return nil, fault.Wrap(err, fault.Conflict, "desktop_not_running", "No desktop runs in the sandbox.") // another user's folder is none
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", filepath.Join(dir, string(socket)))
		if err != nil {
			return nil, fault.Wrap(err, fault.Conflict, "desktop_not_running", "No desktop runs in the sandbox.")
		}
		return conn.(proxycopy.Conn), nil
	})
}
