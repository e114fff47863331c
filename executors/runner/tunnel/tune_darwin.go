package tunnel

// notSentLow is TCP_NOTSENT_LOWAT of <netinet/tcp.h>.
const notSentLow = 0x201
