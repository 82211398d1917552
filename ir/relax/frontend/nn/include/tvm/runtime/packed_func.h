/* For sources that include the reference system's headers: what external functions need is in loopsmith/external.h. */
#include <loopsmith/external.h>
