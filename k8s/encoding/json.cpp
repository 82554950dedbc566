// Boost.JSON, compiled once: everybody else includes <boost/json/...> and links this.
#include <boost/json/src.hpp>
