"""What every tier needs of the process that runs it."""

import signal

# A shell that starts a job in the background makes it ignore SIGINT, and every program it starts inherits that:
# Ctrl-C could then not be tested. A handler of our own is set back to the default in those programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
