package guest

// A sandbox's programs find the server's model gateway at a port of its own loopback, whatever network the place has: the guest listens
// there and carries each connection to its host, over the pipe there is. The host asks for a connection ahead of time, with a POST of
// GatewayPath that is answered once a program has connected; the bodies of the request and of its answer are then the two directions. The first byte of the request is the
// host's word that it is still there: without it the connection waits for the next host.

// GatewayPath is what a host asks for the next connection to the gateway.
const GatewayPath = "/v1/gateway"

// EnvGatewayURL and EnvGatewayToken tell an agent whose account goes through the gateway where that is and what it shows there. The
// gateway's paths are below the address: /anthropic and /openai/v1.
const (
	EnvGatewayURL   = "PARAWORK_GATEWAY_URL"
	EnvGatewayToken = "PARAWORK_GATEWAY_TOKEN"
)

// Limits of connections to the gateway, of one sandbox.
const (
	MaxGatewayConns = 128 // open at once, those that wait for a host among them
	MaxHostName     = 64  // bytes of the name by which a host asks, see HostQuery
)

// HostQuery names, in the query of GatewayPath, the run of a server that asks. What another one asked before is over: a guest whose pipe
// was cut without a word would hand connections to nobody.
const HostQuery = "host"
