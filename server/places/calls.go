package places

import (
	"net"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/call"
	"github.com/parawork/parawork/server/rest"
)

// ConnectGuest is GET /guest/connect: a guest in a sandbox elsewhere calls. Its place proves who it is, and owns the connection.
func (h Sandboxes) ConnectGuest(c echo.Context) error {
	r := c.Request()
	caller, err := call.Asks(r)
	if err != nil {
		return err
	}
	accept := func() (net.Conn, error) {
		rest.CallOf(r.Context()).Status = http.StatusSwitchingProtocols
		return call.Accept(c.Response(), r)
	}
	for _, e := range h.cfg.Executors.Own() {
		if e, ok := e.(executors.Callee); ok && e.Called(caller.Sandbox, string(caller.For), accept) {
			return nil
		}
	}
	return call.Unknown()
}
