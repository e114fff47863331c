package executors

import "fmt"

// RefusalReason says why a sandbox was denied a connection to a host. The values are stable: they are stored and part of the API.
type RefusalReason string

// Reasons, as in the API.
const (
	NotListed      RefusalReason = "not_listed"
	PrivateAddress RefusalReason = "private_address"
	NoNetwork      RefusalReason = "no_network"
	Unresolved     RefusalReason = "unresolved"
	BadPort        RefusalReason = "bad_port"
)

// Refusal is one connection a sandbox was denied. Host is normalized as in internal/hostname.
type Refusal struct {
	TeamID      string
	WorkspaceID string
	Host        string
	Port        int
	Reason      RefusalReason
}

// Reach is one connection a sandbox made. Host is normalized as in internal/hostname.
type Reach struct {
	TeamID      string
	WorkspaceID string
	Host        string
	Port        int
}

// Words tells a person why the connection was denied, and what to do.
func (r Refusal) Words() string {
	switch r.Reason {
	case NotListed:
		return fmt.Sprintf("%s is not on the list of hosts this workspace may reach. An admin of the team can allow it.", r.Host)
	case PrivateAddress:
		return fmt.Sprintf("%s is inside a private network, which workspaces cannot reach. An operator can allow its address with sandboxing.network.allowPrivate.", r.Host)
	case NoNetwork:
		return "This project's workspaces have no network. An admin of the team can change that in the project's settings."
	case Unresolved:
		return fmt.Sprintf("The name %s could not be resolved. Check its spelling.", r.Host)
	case BadPort:
		if r.Port == mailPort {
			return "Port 25, which mail servers use between each other, is closed to workspaces. Mail services accept mail at port 587."
		}
		return fmt.Sprintf("%s may only be reached at ports 80, 443 and 22. An admin of the team can allow %s:%d.", r.Host, r.Host, r.Port)
	}
	return "It was refused."
}

// mailPort is where mail servers accept mail from strangers: an open network must not send spam.
const mailPort = 25

// usualPorts are open on a listed host without a port: http, https and ssh.
var usualPorts = [...]int{80, 443, 22}

// MayPort reports whether a host may be reached at a port: any host in an open network, or a listed host whose entry names only the given
// port, 0 for none.
func MayPort(mode NetworkMode, only, port int) bool {
	if mode == NetworkOpen {
		return port != mailPort
	}
	if only != 0 {
		return port == only
	}
	for _, p := range usualPorts {
		if p == port {
			return true
		}
	}
	return false
}

// FreePlace is a way on that errors name (details.ways): a place that costs nothing, on this server.
const FreePlace = "free_place"
