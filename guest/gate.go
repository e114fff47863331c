package guest

// GateSocket is where a sandbox without a network finds the only way out, unless EnvGate says otherwise. An HTTP proxy of the
// server listens there.
const GateSocket = "/run/parawork/gate/egress"

// EnvGate names the socket in the environment of every program in such a sandbox.
const EnvGate = "PARAWORK_GATE"

// ForwardsPath is the path of a request to the gate itself, in origin form, for the ports of the server's own loopback that an
// operator lets sandboxes reach. The answer is Forwards as JSON.
const ForwardsPath = "/v1/forwards"

// Forwards lists ports that have the same address, 127.0.0.1, inside and outside.
type Forwards struct {
	Ports []int `json:"ports"`
}

// MaxForwards bounds Forwards.Ports.
const MaxForwards = 32
