/* sapwood_domain_free: the domain was freed before */
#include "check.h"

int main(void)
{
	sapwood_domain_options options = {sizeof options, SAPWOOD_CHECKED, 0, 0, 0, 0};
	sapwood_domain *domain = NULL;

	IS(sapwood_domain_new(&options, &domain), 0);
	sapwood_domain_free(domain);
	sapwood_domain_free(domain);
	return 0;
}
