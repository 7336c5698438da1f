// Stand-in: ProcessGroupGloo.hpp includes this file and names nothing of it.
#pragma once
